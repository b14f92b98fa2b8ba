import java.util.Properties;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A pool of request workers, as a web server has it. Each worker sends a record per request, so requests pile up when
 * send() blocks. Runs with kafka-clients 0.11 to 4.x. Options are system properties:
 *
 * topic
 * partition    the partition to send to; -1: any
 * rate         requests/s
 * workers      number of workers
 * queue        maximum number of waiting requests
 * size         size of a record in bytes
 * seconds      time (s) until the end; 0: for ever
 * p.NAME       producer option NAME
 * wrong.after  seconds until the workers send to wrong.topic and wrong.partition, as after a faulty release; -1: never
 *
 * After the first send() that takes longer than 500 ms, the program prints ONSET, the time (epoch ms) of the call of
 * send(), and a text. Every few seconds, it prints COUNTERS and a JSON object.
 */
public class RequestPool {
    private static final Logger LOG = LoggerFactory.getLogger("checkout.Requests");
    private static final LongAdder ARRIVED = new LongAdder();
    private static final LongAdder REJECTED = new LongAdder();
    private static final LongAdder ACKNOWLEDGED = new LongAdder();
    private static final LongAdder FAILED = new LongAdder();
    private static final AtomicLong LONGEST_MS = new AtomicLong();
    private static final AtomicBoolean BEGUN = new AtomicBoolean();
    private static volatile String topic = System.getProperty("topic", "checkouts");
    private static volatile int partition = Integer.getInteger("partition", -1);

    public static void main(String[] args) throws Exception {
        byte[] payload = new byte[Integer.getInteger("size", 512)];
        int workers = Integer.getInteger("workers", 8);
        long pauseNanos = (long) (1e9 / Double.parseDouble(System.getProperty("rate", "4")));
        long wrongAfter = Long.getLong("wrong.after", -1);
        long seconds = Long.getLong("seconds", 0);
        AtomicLong number = new AtomicLong();
        ThreadPoolExecutor pool = new ThreadPoolExecutor(
            workers, workers, 1, TimeUnit.MINUTES, new ArrayBlockingQueue<>(Integer.getInteger("queue", 20)),
            task -> new Thread(task, "http-worker-" + number.incrementAndGet()));
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(options(), new ByteArraySerializer(), new ByteArraySerializer());
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            pool.shutdownNow();
            producer.close();
            report();
        }, "shutdown"));
        long begin = System.nanoTime();
        long reported = begin;
        while (seconds == 0 || System.nanoTime() - begin < TimeUnit.SECONDS.toNanos(seconds)) {
            if (wrongAfter >= 0 && System.nanoTime() - begin > TimeUnit.SECONDS.toNanos(wrongAfter)) {
                topic = System.getProperty("wrong.topic", topic);
                partition = Integer.getInteger("wrong.partition", partition);
            }
            ARRIVED.increment();
            try {
                pool.execute(() -> serve(producer, payload));
            } catch (RejectedExecutionException full) {
                REJECTED.increment();
            }
            LockSupport.parkNanos(pauseNanos);
            if (System.nanoTime() - reported > TimeUnit.SECONDS.toNanos(5)) {
                reported = System.nanoTime();
                report();
            }
        }
        System.exit(0);
    }

    private static Properties options() {
        Properties options = new Properties();
        options.put("client.id", "checkout-events");
        for (String name : System.getProperties().stringPropertyNames()) {
            if (name.startsWith("p.")) {
                options.put(name.substring(2), System.getProperty(name));
            }
        }
        return options;
    }

    private static void serve(KafkaProducer<byte[], byte[]> producer, byte[] payload) {
        long called = System.currentTimeMillis();
        Integer to = partition < 0 ? null : Integer.valueOf(partition);
        try {
            producer.send(new ProducerRecord<>(topic, to, null, payload), (metadata, error) -> {
                if (error == null) {
                    ACKNOWLEDGED.increment();
                } else {
                    FAILED.increment();
                    LOG.error("checkout event not sent", error);
                }
            });
        } catch (RuntimeException error) {
            FAILED.increment();
            LOG.error("checkout event refused", error);
        }
        long took = System.currentTimeMillis() - called;
        LONGEST_MS.accumulateAndGet(took, Math::max);
        if (took > 500 && BEGUN.compareAndSet(false, true)) {
            System.out.println("ONSET " + called + " send() blocks");
        }
    }

    private static void report() {
        System.out.printf(
            "COUNTERS {\"ts\": %d, \"arrived\": %d, \"rejected\": %d, \"acknowledged\": %d, \"failed\": %d,"
                + " \"longest_send_ms\": %d}%n",
            System.currentTimeMillis(), ARRIVED.sum(), REJECTED.sum(), ACKNOWLEDGED.sum(), FAILED.sum(),
            LONGEST_MS.get());
    }
}
