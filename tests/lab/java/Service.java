import java.io.File;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A service of kafka-clients 0.11 to 4.1 that sends to a topic and consumes it. System properties: topic, rate
 * (records/s), p.NAME and c.NAME (options of the clients), commit: auto; batch or record (commitSync after each);
 * async; only (a consumer that never polls: it commits what others have handled). handle: nothing, or produce (each
 * record is passed on and its acknowledgement awaited), after handle.ms (150: a commit is soon due whenever). Where the file "hang" exists, the handler does not return.
 *
 * It survives what its brokers do: an exception of the client is logged, and the loop goes on. Lines on standard
 * output: COUNTERS json.
 */
public class Service {
    private static final String TOPIC = System.getProperty("topic");
    private static final String COMMIT = System.getProperty("commit", "auto");
    private static final LongAdder SENT = new LongAdder();
    private static final LongAdder FAILED = new LongAdder();
    private static final LongAdder HANDLED = new LongAdder();
    private static final LongAdder COMMITTED = new LongAdder();
    private static volatile String in = "start";

    public static void main(String[] args) {
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(options("p."), new ByteArraySerializer(), new ByteArraySerializer());
        Properties consuming = options("c.");
        consuming.putIfAbsent("auto.offset.reset", "earliest");
        consuming.putIfAbsent("enable.auto.commit", String.valueOf(COMMIT.equals("auto")));
        KafkaConsumer<byte[], byte[]> consumer =
            new KafkaConsumer<>(consuming, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        new Thread(() -> produce(producer), "feed").start();
        new Thread(() -> consume(consumer, producer), "worker").start();
        while (true) {
            LockSupport.parkNanos(TimeUnit.SECONDS.toNanos(2));
            System.out.printf(
                "COUNTERS {\"sent\": %d, \"failed\": %d, \"handled\": %d, \"committed\": %d, \"in_%s\": 1}%n",
                SENT.sum(), FAILED.sum(), HANDLED.sum(), COMMITTED.sum(), in);
        }
    }

    private static Properties options(String prefix) {
        Properties options = new Properties();
        for (String name : System.getProperties().stringPropertyNames()) {
            if (name.startsWith(prefix)) {
                options.put(name.substring(prefix.length()), System.getProperty(name));
            }
        }
        return options;
    }

    private static void produce(KafkaProducer<byte[], byte[]> producer) {
        long pause = (long) (1e9 / Double.parseDouble(System.getProperty("rate", "5")));
        byte[] payload = new byte[200];
        while (true) {
            try {
                producer.send(new ProducerRecord<>(TOPIC, payload), (m, e) -> (e == null ? SENT : FAILED).increment());
            } catch (KafkaException failed) {
                FAILED.increment();
            }
            LockSupport.parkNanos(pause);
        }
    }

    private static void consume(KafkaConsumer<byte[], byte[]> consumer, KafkaProducer<byte[], byte[]> producer) {
        TopicPartition first = new TopicPartition(TOPIC, 0);
        if (COMMIT.equals("only")) {
            consumer.assign(Collections.singletonList(first));
        } else {
            consumer.subscribe(Collections.singletonList(TOPIC));
        }
        long offset = 0;
        while (true) {
            try {
                if (COMMIT.equals("only")) {
                    commit(consumer, first, ++offset);
                    LockSupport.parkNanos(TimeUnit.SECONDS.toNanos(1));
                    continue;
                }
                List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
                poll(consumer).forEach(records::add);
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    in = "handler";
                    Handler.handle(record, producer);
                    HANDLED.increment();
                    if (COMMIT.equals("record")) {
                        commit(consumer, new TopicPartition(record.topic(), record.partition()), record.offset() + 1);
                    }
                }
                if (COMMIT.equals("batch") && !records.isEmpty()) {
                    in = "commit";
                    consumer.commitSync();
                    COMMITTED.increment();
                } else if (COMMIT.equals("async")) {
                    consumer.commitAsync();
                }
            } catch (KafkaException failed) {
                org.slf4j.LoggerFactory.getLogger(Service.class).warn("goes on after: {}", failed.toString());
                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(200));
            }
        }
    }

    private static void commit(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, long offset) {
        in = "commit";
        consumer.commitSync(Collections.singletonMap(partition, new OffsetAndMetadata(offset)));
        COMMITTED.increment();
    }

    /** Up to 1.1 the time is a number, from 4.0 on it is a Duration. */
    @SuppressWarnings("unchecked")
    private static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> consumer) {
        in = "poll";
        try {
            try {
                return (ConsumerRecords<byte[], byte[]>)
                    KafkaConsumer.class.getMethod("poll", Duration.class).invoke(consumer, Duration.ofSeconds(1));
            } catch (NoSuchMethodException old) {
                return (ConsumerRecords<byte[], byte[]>)
                    KafkaConsumer.class.getMethod("poll", long.class).invoke(consumer, 1000L);
            }
        } catch (java.lang.reflect.InvocationTargetException thrown) {
            if (thrown.getCause() instanceof KafkaException) {
                throw (KafkaException) thrown.getCause();
            }
            throw new IllegalStateException(thrown.getCause());
        } catch (ReflectiveOperationException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    /** What the service is for. */
    static final class Handler {
        private static final File HANG = new File("hang");

        static void handle(ConsumerRecord<byte[], byte[]> record, KafkaProducer<byte[], byte[]> producer) {
            if (HANG.exists()) {
                waitForAnswer();
            }
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(Long.getLong("handle.ms", 150)));
            if (System.getProperty("handle", "").equals("produce")) {
                try {
                    producer.send(new ProducerRecord<>(TOPIC + "-out", record.value())).get();
                } catch (java.util.concurrent.ExecutionException | InterruptedException failed) {
                    throw new KafkaException(failed.getCause());
                }
            }
        }

        private static void waitForAnswer() {
            try {
                new CountDownLatch(1).await();
            } catch (InterruptedException never) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
