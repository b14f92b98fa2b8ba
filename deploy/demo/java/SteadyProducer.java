import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Sends records at a steady rate and ends in one of several ways. Its callback makes the producer healthy, slow or
 * deadlocked. Runs with kafka-clients 0.11 to 4.x. Options are system properties:
 *
 * topic, threads
 * rate          records/s of all threads; 0: none
 * size          size of a record in bytes
 * p.NAME        producer option NAME
 * callback      none
 *               sleep: the callback keeps the I/O thread for callback.ms
 *               resend-and-get: the callback sends a failed record again and waits for the result, a deadlock
 *               resend: the callback sends a failed record again, and send() blocks
 * seconds       time (s) until the end; 0: for ever
 * burst         records sent at once when `seconds` are over
 * idle.seconds  pause before the end
 * end           close: closes the producer (also on SIGTERM)
 *               close-now: closes the producer with timeout 0
 *               flush: flushes the producer, and does not close it
 *               exit: ends the JVM without flush or close
 *               halt: ends the JVM at once, as kill -9 does
 * beside        client id of a second producer, which sends a record each second and has no callback
 *
 * When the failure begins, the program prints ONSET, the time (epoch ms) and a text. Every few seconds, it prints
 * COUNTERS and a JSON object.
 */
public class SteadyProducer {
    private static final Logger LOG = LoggerFactory.getLogger("orders.Publisher");
    private static final String TOPIC = System.getProperty("topic", "orders");
    private static final String CALLBACK = System.getProperty("callback", "none");
    private static final long CALLBACK_MS = Long.getLong("callback.ms", 100);
    private static final LongAdder ATTEMPTED = new LongAdder();
    private static final LongAdder ACKNOWLEDGED = new LongAdder();
    private static final LongAdder FAILED = new LongAdder();
    private static final LongAdder CALLBACK_NANOS = new LongAdder();
    private static final AtomicBoolean BEGUN = new AtomicBoolean();
    private static volatile boolean ending;
    private static byte[] payload;
    private static KafkaProducer<byte[], byte[]> producer;

    public static void main(String[] args) throws Exception {
        payload = new byte[Integer.getInteger("size", 1024)];
        producer = new KafkaProducer<>(options(), new ByteArraySerializer(), new ByteArraySerializer());
        String how = System.getProperty("end", "close");
        if (how.equals("close")) {
            Runtime.getRuntime().addShutdownHook(new Thread(SteadyProducer::close, "shutdown"));
        }
        if (System.getProperty("beside") != null) {
            Thread beside = new Thread(SteadyProducer::sendBeside, "beside");
            beside.setDaemon(true);
            beside.start();
        }
        int threads = Integer.getInteger("threads", 2);
        double rate = Double.parseDouble(System.getProperty("rate", "100"));
        long seconds = Long.getLong("seconds", 0);
        long end = seconds == 0 ? Long.MAX_VALUE : System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        Thread[] workers = new Thread[rate > 0 ? threads : 0];
        for (int i = 0; i < workers.length; i++) {
            workers[i] = new Thread(() -> sendSteadily((long) (1e9 * threads / rate), end), "publisher-" + i);
            workers[i].start();
        }
        Thread reporter = new Thread(SteadyProducer::reportForEver, "reporter");
        reporter.setDaemon(true);
        reporter.start();
        if (seconds == 0) {
            return;
        }
        TimeUnit.SECONDS.sleep(seconds);
        for (Thread worker : workers) {
            worker.join();
        }
        for (int i = Integer.getInteger("burst", 0); i > 0; i--) {
            send();
        }
        TimeUnit.SECONDS.sleep(Long.getLong("idle.seconds", 0));
        finish(how);
    }

    private static Properties options() {
        Properties options = new Properties();
        options.put("client.id", "order-publisher");
        for (String name : System.getProperties().stringPropertyNames()) {
            if (name.startsWith("p.")) {
                options.put(name.substring(2), System.getProperty(name));
            }
        }
        return options;
    }

    private static void sendBeside() {
        Properties options = options();
        options.put("client.id", System.getProperty("beside"));
        KafkaProducer<byte[], byte[]> other =
            new KafkaProducer<>(options, new ByteArraySerializer(), new ByteArraySerializer());
        while (true) {
            LockSupport.parkNanos(TimeUnit.SECONDS.toNanos(1));
            try {
                other.send(new ProducerRecord<>(TOPIC, payload));
            } catch (RuntimeException error) {
                LOG.error("order beside not accepted", error);
            }
        }
    }

    private static void sendSteadily(long pauseNanos, long end) {
        long next = System.nanoTime();
        while (!ending && System.nanoTime() < end) {
            send();
            next = Math.max(next + pauseNanos, System.nanoTime() - TimeUnit.SECONDS.toNanos(1));
            LockSupport.parkNanos(next - System.nanoTime());
        }
    }

    private static void send() {
        ATTEMPTED.increment();
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(TOPIC, payload);
        try {
            producer.send(record, new Delivery(record));
        } catch (RuntimeException error) {
            FAILED.increment();
            LOG.error("order not accepted", error);
        }
    }

    private static final class Delivery implements Callback {
        private final ProducerRecord<byte[], byte[]> record;

        Delivery(ProducerRecord<byte[], byte[]> record) {
            this.record = record;
        }

        @Override
        public void onCompletion(RecordMetadata metadata, Exception error) {
            long began = System.nanoTime();
            completed(error);
            CALLBACK_NANOS.add(System.nanoTime() - began);
        }

        private void completed(Exception error) {
            if (error == null) {
                ACKNOWLEDGED.increment();
                if (CALLBACK.equals("sleep")) {
                    LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(CALLBACK_MS));
                }
                return;
            }
            FAILED.increment();
            LOG.warn("order not delivered", error);
            if (CALLBACK.startsWith("resend")) {
                sendAgain();
            }
        }

        private void sendAgain() {
            boolean onIoThread = Thread.currentThread().getName().startsWith("kafka-producer-network-thread");
            if (onIoThread && BEGUN.compareAndSet(false, true)) {
                onset(CALLBACK + " in the callback");
            }
            try {
                if (CALLBACK.equals("resend-and-get")) {
                    producer.send(record).get();
                } else {
                    producer.send(record);
                }
            } catch (Exception error) {
                LOG.error("order lost", error);
            }
        }
    }

    private static void finish(String how) {
        switch (how) {
            case "close":
                break; // the shutdown hook does
            case "close-now":
                onset(how);
                closeNow();
                break;
            case "flush":
                producer.flush();
                break;
            case "exit":
                onset(how);
                break;
            case "halt":
                onset(how);
                report();
                Runtime.getRuntime().halt(137);
                break;
            default:
                throw new IllegalArgumentException("end=" + how);
        }
        if (!how.equals("close")) {
            report();
        }
        System.exit(0);
    }

    private static void close() {
        ending = true;
        producer.close();
        report();
    }

    /** Closes the producer with timeout 0. Old clients without close(Duration) are closed without a timeout. */
    private static void closeNow() {
        try {
            KafkaProducer.class.getMethod("close", Duration.class).invoke(producer, Duration.ZERO);
        } catch (NoSuchMethodException old) {
            producer.close();
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void onset(String what) {
        System.out.println("ONSET " + System.currentTimeMillis() + " " + what);
    }

    private static void report() {
        System.out.printf(
            "COUNTERS {\"ts\": %d, \"attempted\": %d, \"acknowledged\": %d, \"failed\": %d, \"callback_ms\": %d}%n",
            System.currentTimeMillis(), ATTEMPTED.sum(), ACKNOWLEDGED.sum(), FAILED.sum(),
            TimeUnit.NANOSECONDS.toMillis(CALLBACK_NANOS.sum()));
    }

    private static void reportForEver() {
        while (true) {
            LockSupport.parkNanos(TimeUnit.SECONDS.toNanos(5));
            report();
        }
    }
}
