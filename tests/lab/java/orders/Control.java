package orders;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.LinkedList;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads command words from the lab's Python program, one per line on standard input. The end of the input means that
 * the lab has ended.
 *
 * go    the trouble begins
 * over  the trouble ends
 * end   this program waits `end.ms` milliseconds, and then ends. The system property `end` says how: close, flush,
 *       a number (close within that many milliseconds), exit (close nothing), halt, throw, return.
 */
final class Control {
    private static final Logger LOG = LoggerFactory.getLogger("orders.Main");
    private static final CountDownLatch END = new CountDownLatch(1);
    private static final String HOW = System.getProperty("end", "close");
    static volatile boolean go;
    static volatile boolean over;
    static volatile boolean ending;
    private static Consumer<String> closing;
    private static volatile boolean closed;

    private Control() {
    }

    static boolean wrong() {
        return go && !over;
    }

    static Properties options(String prefix, int number) {
        Properties options = new Properties();
        for (String name : System.getProperties().stringPropertyNames()) {
            if (name.startsWith(prefix)) {
                options.put(name.substring(prefix.length()), System.getProperty(name));
            }
        }
        if (options.containsKey("client.id") && number > 0) {
            options.put("client.id", options.get("client.id") + "-" + number);
        }
        return options;
    }

    static void run(Consumer<String> close) {
        closing = close;
        daemon("lab-input", Control::read);
        daemon("lab-truth", () -> {
            while (true) {
                Truth.tell();
                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(500));
            }
        });
        if (System.getProperty("trouble", "").equals("collect")) {
            daemon("price-cache", Control::collect);
        }
        if (System.getProperty("quotes") != null) {
            daemon("log-forwarder", Control::quote);
        }
    }

    static void daemon(String name, Runnable run) {
        Thread thread = new Thread(run, name);
        thread.setDaemon(true);
        thread.start();
    }

    private static void read() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
            String line;
            while ((line = lines.readLine()) != null) {
                go |= line.equals("go");
                over |= line.equals("over");
                if (line.equals("end")) {
                    END.countDown();
                }
            }
        } catch (java.io.IOException gone) {
            LOG.warn("no input", gone);
        }
        Runtime.getRuntime().halt(9);
    }

    /** Causes one garbage collection after another, with a heap of many small objects. */
    private static void collect() {
        LinkedList<Object> cache = new LinkedList<>();
        while (true) {
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(wrong() ? 5 : 100));
            while (wrong() && cache.size() < 1_000_000) {
                cache.add(new Object());
            }
            if (wrong()) {
                System.gc();
            }
        }
    }

    /** Logs quoted lines of other programs, as a log watcher does. */
    private static void quote() {
        Random random = new Random(Long.getLong("quotes"));
        String[] quotes = System.getProperty("quoted").split("\u0001");
        Logger log = LoggerFactory.getLogger("orders.watch.LogForwarder");
        while (true) {
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(500 + random.nextInt(4000)));
            if (wrong()) {
                log.error("{}", quotes[random.nextInt(quotes.length)]);
            }
        }
    }

    /** Blocks until the program must end, and then ends the program. */
    static void await() throws InterruptedException {
        END.await();
        ending = !HOW.equals("exit") && !HOW.equals("halt") && !HOW.equals("return");
        LOG.info("shutting down");
        Thread.sleep(Long.getLong("end.ms", 0));
        switch (HOW) {
            case "exit":
                Truth.tell();
                System.exit(0);
                break;
            case "halt":
                Truth.tell();
                Runtime.getRuntime().halt(137);
                break;
            case "throw":
                Truth.tell();
                ending = false;
                throw new IllegalStateException("no price for order 4711");
            case "return":
                Truth.tell();
                return;
            default:
                closed = true;
                closing.accept(HOW);
                Truth.tell();
                System.exit(0);
        }
    }

    /** Runs at SIGTERM, as when a service is stopped. */
    static void hook() {
        if (!closed && Boolean.getBoolean("hook")) {
            ending = true;
            closing.accept(HOW);
        }
        Truth.tell();
    }
}
