import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A producer and a consumer of the same topics in one process: healthy, or with a slow handler in the poll loop. Needs
 * kafka-clients 2.0 or newer. Options are system properties:
 *
 * topics          comma separated
 * rate            records/s to each topic
 * size            size of a record in bytes
 * seconds         time (s) until the end; 0: until SIGTERM
 * p.NAME, c.NAME  producer option NAME, consumer option NAME
 * slow.topic      the topic with the slow handler; by default all topics
 * handle.ms       time (ms) that the slow handler takes for each record
 * slow.after      seconds until the handler is slow
 * pause.after     seconds until the consumer pauses its partitions; it still calls poll()
 * second.every    seconds after which a second consumer joins the group or leaves it, in turn; 0: never
 *
 * When the failure begins, the program prints ONSET, the time (epoch ms) and a text. Every few seconds, it prints
 * COUNTERS and a JSON object.
 */
public class ProduceAndConsume {
    private static final List<String> TOPICS = Arrays.asList(System.getProperty("topics", "orders").split(","));
    private static final String SLOW_TOPIC = System.getProperty("slow.topic", "");
    private static final long HANDLE_MS = Long.getLong("handle.ms", 0);
    private static final LongAdder ACKNOWLEDGED = new LongAdder();
    private static final LongAdder FAILED = new LongAdder();
    private static final LongAdder CONSUMED = new LongAdder();
    private static final AtomicBoolean BEGUN = new AtomicBoolean();
    private static volatile boolean ending;

    public static void main(String[] args) throws Exception {
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(
            options("p.", "order-api"), new ByteArraySerializer(), new ByteArraySerializer());
        Properties consuming = options("c.", "order-billing");
        consuming.putIfAbsent("auto.offset.reset", "earliest");
        KafkaConsumer<byte[], byte[]> consumer =
            new KafkaConsumer<>(consuming, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        Thread billing = new Thread(() -> consume(consumer), "billing");
        Thread api = new Thread(() -> produce(producer), "api");
        billing.start();
        api.start();
        Thread second = new Thread(() -> comeAndGo(consuming, Long.getLong("second.every", 0)), "second");
        second.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            ending = true;
            join(api);
            producer.close();
            consumer.wakeup();
            join(billing);
            second.interrupt();
            join(second);
            report();
        }, "shutdown"));
        long seconds = Long.getLong("seconds", 0);
        long begin = System.nanoTime();
        while (seconds == 0 || System.nanoTime() - begin < TimeUnit.SECONDS.toNanos(seconds)) {
            LockSupport.parkNanos(TimeUnit.SECONDS.toNanos(5));
            report();
        }
        System.exit(0);
    }

    private static void join(Thread thread) {
        try {
            thread.join();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private static Properties options(String prefix, String clientId) {
        Properties options = new Properties();
        options.put("client.id", clientId);
        for (String name : System.getProperties().stringPropertyNames()) {
            if (name.startsWith(prefix)) {
                options.put(name.substring(prefix.length()), System.getProperty(name));
            }
        }
        return options;
    }

    private static void produce(KafkaProducer<byte[], byte[]> producer) {
        byte[] payload = new byte[Integer.getInteger("size", 512)];
        long pauseNanos = (long) (1e9 / Double.parseDouble(System.getProperty("rate", "20")));
        while (!ending) {
            for (String topic : TOPICS) {
                producer.send(new ProducerRecord<>(topic, payload), (metadata, error) -> {
                    (error == null ? ACKNOWLEDGED : FAILED).increment();
                });
            }
            LockSupport.parkNanos(pauseNanos);
        }
    }

    private static void consume(KafkaConsumer<byte[], byte[]> consumer) {
        long begin = System.nanoTime();
        long slowAfter = TimeUnit.SECONDS.toNanos(Long.getLong("slow.after", 0));
        long pauseAfter = TimeUnit.SECONDS.toNanos(Long.getLong("pause.after", Integer.MAX_VALUE));
        consumer.subscribe(TOPICS);
        try {
            while (!ending) {
                if (System.nanoTime() - begin > pauseAfter) {
                    consumer.pause(consumer.assignment());
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    if (HANDLE_MS > 0 && System.nanoTime() - begin > slowAfter) {
                        handleSlowly(record);
                    }
                    CONSUMED.increment();
                }
            }
        } catch (WakeupException end) {
            if (!ending) {
                throw end;
            }
        }
        consumer.close();
    }

    private static void comeAndGo(Properties consuming, long seconds) {
        Properties options = new Properties();
        options.putAll(consuming);
        options.put("client.id", options.getProperty("client.id") + "-2");
        while (seconds > 0 && !ending) {
            sleep(seconds);
            try (KafkaConsumer<byte[], byte[]> consumer =
                     new KafkaConsumer<>(options, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                consumer.subscribe(TOPICS);
                long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
                while (!ending && System.nanoTime() < end) {
                    CONSUMED.add(consumer.poll(Duration.ofSeconds(1)).count());
                }
            } catch (InterruptException end) {
                Thread.interrupted();
            }
        }
    }

    private static void sleep(long seconds) {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        while (!ending && System.nanoTime() < end) {
            LockSupport.parkNanos(end - System.nanoTime());
        }
    }

    private static void handleSlowly(ConsumerRecord<byte[], byte[]> record) {
        if (!SLOW_TOPIC.isEmpty() && !SLOW_TOPIC.equals(record.topic())) {
            return;
        }
        if (BEGUN.compareAndSet(false, true)) {
            System.out.println("ONSET " + System.currentTimeMillis() + " slow handler of " + record.topic());
        }
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(HANDLE_MS);
        while (!ending && System.nanoTime() < until) {
            LockSupport.parkNanos(until - System.nanoTime());
        }
    }

    private static void report() {
        System.out.printf(
            "COUNTERS {\"ts\": %d, \"acknowledged\": %d, \"failed\": %d, \"consumed\": %d}%n",
            System.currentTimeMillis(), ACKNOWLEDGED.sum(), FAILED.sum(), CONSUMED.sum());
    }
}
