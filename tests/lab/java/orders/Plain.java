package orders;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Producers or consumers of kafka-clients 0.11 to 4.1 with any trouble. The program has the system properties of
 * Trouble and Control, and these:
 *
 * role, topic, size
 * clients         number of clients
 * threads         number of sending threads
 * thread          names of these threads
 * rate            records/s of each client
 * sync            true: wait until each record is acknowledged
 * every           number of records per log line
 * p.NAME, c.NAME  client options
 *
 * This class is compiled once, with kafka-clients 2.2. Parts that differ between versions are called by reflection.
 */
public class Plain {
    private static final Logger LOG = LoggerFactory.getLogger(Plain.class);
    static final List<KafkaProducer<byte[], byte[]>> PRODUCERS = new ArrayList<>();
    static final List<KafkaConsumer<byte[], byte[]>> CONSUMERS = new ArrayList<>();
    private static final List<Thread> LOOPS = new ArrayList<>();
    private static final String TOPIC = System.getProperty("topic");

    public static void main(String[] args) throws Exception {
        boolean producing = !System.getProperty("role").equals("consumer");
        for (int i = 0; i < Integer.getInteger("clients", 1); i++) {
            if (producing) {
                produce(i);
            } else {
                consume(i);
            }
        }
        if (Boolean.getBoolean("micrometer")) {
            List<Object> clients = new ArrayList<>(PRODUCERS);
            clients.addAll(CONSUMERS);
            Class.forName("orders.Page").getMethod("serve", List.class).invoke(null, clients);
        }
        Control.run(Plain::close);
        if (producing) {
            Runtime.getRuntime().addShutdownHook(new Thread(Control::hook, "shutdown"));
        }
        for (Thread loop : LOOPS) {
            loop.start();
        }
        Control.await();
    }

    private static void produce(int number) {
        Properties options = Control.options("p.", number);
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(options, new ByteArraySerializer(), new ByteArraySerializer());
        PRODUCERS.add(producer);
        Truth truth = Truth.of("producer", options.getProperty("client.id"));
        Trouble trouble = new Trouble(producer, TOPIC, truth, number);
        int threads = Integer.getInteger("threads", 2);
        long pause = (long) (1e9 * threads / Double.parseDouble(System.getProperty("rate", "10")));
        for (int i = 0; i < threads; i++) {
            LOOPS.add(thread(() -> send(producer, trouble, truth, pause), i));
        }
    }

    private static Thread thread(Runnable loop, int number) {
        Thread thread = new Thread(loop, System.getProperty("thread", "worker-") + number);
        thread.setDaemon(true);
        return thread;
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, Trouble trouble, Truth truth, long pause) {
        byte[] payload = new byte[Integer.getInteger("size", 300)];
        int every = Integer.getInteger("every", 50);
        while (!Control.ending) {
            int due = trouble.due();
            for (int i = 0; i < due && !Control.ending; i++) {
                long count = truth.attempted.incrementAndGet();
                if (count % every == 0) {
                    LOG.info("order {} accepted", count);
                }
                trouble.beforeSend();
                long token = truth.begin(truth.sending);
                try {
                    ProducerRecord<byte[], byte[]> record = trouble.record(payload);
                    java.util.concurrent.Future<?> future = producer.send(record, trouble);
                    truth.end(truth.sending, token);
                    if (Boolean.getBoolean("sync")) {
                        future.get();
                    }
                } catch (KafkaException | IllegalStateException failed) {
                    truth.end(truth.sending, token);
                    truth.failure(failed, true);
                    if (!Control.ending) {
                        LOG.error("order not accepted", failed);
                    }
                } catch (java.util.concurrent.ExecutionException seen) {
                    LOG.warn("order not stored: {}", seen.getCause().toString());
                } catch (InterruptedException end) {
                    return;
                }
            }
            LockSupport.parkNanos(pause);
        }
    }

    private static void consume(int number) {
        Properties options = Control.options("c.", number);
        KafkaConsumer<byte[], byte[]> consumer =
            new KafkaConsumer<>(options, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        CONSUMERS.add(consumer);
        Truth truth = Truth.of("consumer", options.getProperty("client.id"));
        Trouble trouble = new Trouble(null, TOPIC, truth, number);
        LOOPS.add(thread(() -> poll(consumer, trouble, truth), number));
    }

    private static void poll(KafkaConsumer<byte[], byte[]> consumer, Trouble trouble, Truth truth) {
        consumer.subscribe(Arrays.asList(TOPIC.split(",")), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
                trouble.revoked();
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
            }
        });
        String commit = System.getProperty("commit", "auto");
        while (!Control.ending) {
            try {
                trouble.beforePoll(consumer);
                truth.in = "poll";
                ConsumerRecords<byte[], byte[]> records = poll(consumer);
                truth.polls.incrementAndGet();
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    trouble.handle(record.topic());
                }
                truth.in = "commit";
                if (commit.equals("sync") && !records.isEmpty()) {
                    consumer.commitSync();
                } else if (commit.equals("async")) {
                    consumer.commitAsync();
                }
            } catch (KafkaException failed) {
                truth.failure(failed, false);
                LOG.warn("goes on", failed);
                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(500));
            } finally {
                truth.in = "loop";
            }
        }
        truth.in = "close";
        consumer.close();
        truth.in = "closed";
    }

    /** Calls poll(), which takes milliseconds in clients up to 1.1, and a Duration in clients from 4.0 on. */
    @SuppressWarnings("unchecked")
    private static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> consumer) {
        return (ConsumerRecords<byte[], byte[]>) call(consumer, "poll", Duration.ofMillis(500), 500L);
    }

    static Object call(Object client, String name, Duration time, Object... before) {
        try {
            for (Method method : client.getClass().getMethods()) {
                Class<?>[] types = method.getParameterTypes();
                if (method.getName().equals(name) && types.length == 1 && types[0] == Duration.class) {
                    return method.invoke(client, time);
                }
            }
            for (Method method : client.getClass().getMethods()) {
                if (method.getName().equals(name) && method.getParameterCount() == before.length) {
                    return method.invoke(client, before);
                }
            }
            throw new IllegalStateException(name);
        } catch (InvocationTargetException thrown) {
            if (thrown.getCause() instanceof RuntimeException) {
                throw (RuntimeException) thrown.getCause();
            }
            throw new IllegalStateException(thrown.getCause());
        } catch (IllegalAccessException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    /** {@code how}: a value of the option `end`, such as close, flush, or a number of milliseconds. */
    static void close(String how) {
        for (Thread loop : LOOPS) {
            join(loop, CONSUMERS.isEmpty() ? 200 : 0);
        }
        for (KafkaProducer<byte[], byte[]> producer : PRODUCERS) {
            if (how.equals("flush")) {
                producer.flush();
            } else if (how.equals("close")) {
                producer.close();
            } else {
                long ms = Long.parseLong(how);
                call(producer, "close", Duration.ofMillis(ms), ms, TimeUnit.MILLISECONDS);
            }
        }
    }

    private static void join(Thread loop, long ms) {
        try {
            loop.join(ms);
        } catch (InterruptedException end) {
            Thread.currentThread().interrupt();
        }
    }
}
