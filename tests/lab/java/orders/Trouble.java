package orders;

import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Trouble in a callback, in a handler, or with the records that are sent. System properties:
 *
 * trouble          kind of the trouble
 * trouble.ms       duration of a trouble that ends by itself
 * trouble.in       place of the trouble: callback, handler, or revoked (onPartitionsRevoked() during close())
 * trouble.clients  number of affected clients
 * slow.topic       the only affected topic
 */
final class Trouble implements Callback {
    private static final Logger LOG = LoggerFactory.getLogger("orders.Gateway");
    private static final String WHAT = System.getProperty("trouble", "none");
    private static final String WHERE = System.getProperty("trouble.in", "");
    private static final long MS = Long.getLong("trouble.ms", 0);
    private static final String SLOW = System.getProperty("slow.topic", "");
    private static final BlockingQueue<String> FULL = new ArrayBlockingQueue<>(1);
    private static final ReentrantLock LOCK = new ReentrantLock();
    private static final Object MONITOR = new Object();
    private static ServerSocket silent;
    private static volatile boolean once;
    private final Producer<byte[], byte[]> producer;
    private final String topic;
    private final Truth truth;
    private final boolean mine;
    private long logged;

    static {
        FULL.add("full");
        Control.daemon("ledger-sync", () -> {
            synchronized (MONITOR) {
                LOCK.lock();
                forEver();
            }
        });
        try {
            silent = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        } catch (java.io.IOException impossible) {
            throw new java.io.UncheckedIOException(impossible);
        }
    }

    Trouble(Producer<byte[], byte[]> producer, String topic, Truth truth, int number) {
        this.producer = producer;
        this.topic = topic;
        this.truth = truth;
        this.mine = number < Integer.getInteger("trouble.clients", 1);
    }

    private boolean wrong(String where) {
        return mine && WHERE.equals(where) && Control.wrong();
    }

    int due() {
        if (mine && Control.go && WHAT.equals("burst") && !once) {
            once = true;
            return Integer.getInteger("burst", 3000);
        }
        return mine && Control.wrong() && WHAT.equals("flood") ? 200 : mine && Control.wrong() && WHAT.equals("idle") ? 0 : 1;
    }

    void beforeSend() {
        if (mine && Control.wrong() && WHAT.equals("before-send")) {
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(MS));
        }
    }

    ProducerRecord<byte[], byte[]> record(byte[] payload) {
        boolean wrong = mine && Control.wrong();
        if (wrong && WHAT.equals("topic")) {
            return new ProducerRecord<>(System.getProperty("wrong.topic"), payload);
        }
        return new ProducerRecord<>(topic, wrong && WHAT.equals("partition") ? Integer.valueOf(17) : null, null, payload);
    }

    @Override
    public void onCompletion(RecordMetadata metadata, Exception error) {
        long token = truth.begin(truth.calling);
        try {
            if (error == null) {
                truth.acked.incrementAndGet();
            } else {
                truth.failure(error, false);
                // Log at most two errors a second.
                if (System.currentTimeMillis() - logged >= 500) {
                    logged = System.currentTimeMillis();
                    LOG.warn("order not delivered", error);
                }
            }
            if (wrong("callback")) {
                happen();
            }
        } finally {
            truth.end(truth.calling, token);
        }
    }

    void beforePoll(KafkaConsumer<byte[], byte[]> consumer) {
        boolean wanted = mine && Control.wrong() && WHAT.equals("pause");
        if (wanted != truth.paused) {
            if (wanted) {
                LOG.info("billing is full, pausing");
                consumer.pause(consumer.assignment());
            } else {
                consumer.resume(consumer.assignment());
            }
            truth.paused = wanted;
        }
    }

    void handle(String topic) {
        truth.in = "handler";
        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(Long.getLong("handle.ms", 5)));
        boolean slow = SLOW.isEmpty() || SLOW.equals(topic);
        if (slow && wrong("handler")) {
            happen();
        }
        if (!SLOW.equals(topic)) {
            truth.others.incrementAndGet();
        }
        long count = truth.handled.incrementAndGet();
        if (count % Integer.getInteger("every", 50) == 0) {
            LOG.info("order {} billed", count);
        }
    }

    /** Frameworks call this method for each record, because they poll by themselves. */
    void handled(String topic) {
        truth.polls.incrementAndGet();
        handle(topic);
        truth.in = "framework";
    }

    void revoked() {
        if (Control.ending && wrong("revoked")) {
            happen();
        }
    }

    private void happen() {
        switch (WHAT) {
            case "get": waitForCopy(); break;
            case "flush": producer.flush(); break;
            case "latch": Ledger.waitForAnswer(); break;
            case "join": new CompletableFuture<String>().join(); break;
            case "queue": Ledger.enqueue(FULL); break;
            case "lock": LOCK.lock(); LOCK.unlock(); break;
            case "monitor": Ledger.update(MONITOR); break;
            case "socket": Ledger.ask(silent); break;
            case "spin": Ledger.reconcile(); break;
            case "retry": Ledger.retryForEver(MS); break;
            case "exit": System.exit(3); break;
            case "error": throw new NoClassDefFoundError("orders/ledger/Entry");
            case "sleep": Ledger.sleep(MS); break;
            case "backoff": once(() -> Ledger.backOff(MS)); break;
            case "held": once(() -> Ledger.waitAtMost(MS)); break;
            default:
        }
    }

    private static void once(Runnable run) {
        if (!once) {
            once = true;
            run.run();
        }
    }

    private void waitForCopy() {
        try {
            producer.send(new ProducerRecord<>(topic, new byte[10])).get();
        } catch (InterruptedException | java.util.concurrent.ExecutionException failed) {
            LOG.warn("no copy", failed);
        }
    }

    static void forEver() {
        while (true) {
            LockSupport.park();
        }
    }

    /** A part of the application that does not return, or returns late. */
    static final class Ledger {
        private Ledger() {
        }

        static void waitForAnswer() {
            waitAtMost(Long.MAX_VALUE / 2_000_000);
        }

        static void waitAtMost(long ms) {
            try {
                new CountDownLatch(1).await(ms, TimeUnit.MILLISECONDS);
            } catch (InterruptedException end) {
                Thread.currentThread().interrupt();
            }
        }

        static void enqueue(BlockingQueue<String> queue) {
            try {
                queue.put("entry");
            } catch (InterruptedException end) {
                Thread.currentThread().interrupt();
            }
        }

        static void update(Object monitor) {
            synchronized (monitor) {
                LOG.info("ledger updated");
            }
        }

        static void ask(ServerSocket silent) {
            try (Socket socket = new Socket(silent.getInetAddress(), silent.getLocalPort())) {
                LOG.info("answer {}", socket.getInputStream().read());
            } catch (java.io.IOException failed) {
                LOG.warn("no answer", failed);
            }
        }

        static void reconcile() {
            long sum = 0;
            while (sum != -1) {
                sum = Math.abs(sum + Map.of("a", sum).hashCode());
            }
        }

        static void sleep(long ms) {
            try {
                Thread.sleep(ms);
            } catch (InterruptedException end) {
                Thread.currentThread().interrupt();
            }
        }

        static void retryForEver(long ms) {
            for (int attempt = 1; ; attempt++) {
                LOG.warn("ledger does not answer, attempt {}", attempt);
                sleep(ms);
            }
        }

        static void backOff(long ms) {
            long end = System.currentTimeMillis() + ms;
            for (long pause = 200; System.currentTimeMillis() < end; pause = Math.min(5000, pause * 2)) {
                LOG.warn("ledger is busy, again in {} ms", pause);
                sleep(Math.min(pause, Math.max(1, end - System.currentTimeMillis())));
            }
        }
    }
}
