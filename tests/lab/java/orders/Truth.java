package orders;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicLong;

/** Counts the real actions of a client inside its program, and prints the counts as lines `TRUTH json`. */
final class Truth {
    private static final List<Truth> ALL = new CopyOnWriteArrayList<>();
    private static final AtomicLong TOKENS = new AtomicLong();
    private final String kind;
    private final String id;
    final AtomicLong attempted = new AtomicLong();
    final AtomicLong acked = new AtomicLong();
    final AtomicLong failed = new AtomicLong();
    /** Records given up after delivery.timeout.ms, and sends that waited in vain for metadata or for memory. */
    final AtomicLong expired = new AtomicLong();
    final AtomicLong unknown = new AtomicLong();
    final AtomicLong exhausted = new AtomicLong();
    final AtomicLong polls = new AtomicLong();
    final AtomicLong handled = new AtomicLong();
    /** Number of handled records of topics other than `slow.topic`. */
    final AtomicLong others = new AtomicLong();
    final Map<Long, Long> sending = new ConcurrentHashMap<>();
    final Map<Long, Long> calling = new ConcurrentHashMap<>();
    volatile long longestSend;
    volatile long longestCallback;
    volatile String in = "";
    volatile boolean paused;

    private Truth(String kind, String id) {
        this.kind = kind;
        this.id = id;
    }

    static Truth of(String kind, String id) {
        Truth truth = new Truth(kind, id);
        ALL.add(truth);
        return truth;
    }

    long begin(Map<Long, Long> calls) {
        long token = TOKENS.incrementAndGet();
        calls.put(token, System.currentTimeMillis());
        return token;
    }

    void end(Map<Long, Long> calls, long token) {
        long took = System.currentTimeMillis() - calls.remove(token);
        if (calls == sending) {
            longestSend = Math.max(longestSend, took);
        } else {
            longestCallback = Math.max(longestCallback, took);
        }
    }

    /** Counts a lost record. `sends`: true if send() threw the error, false if the callback got it. */
    void failure(Throwable error, boolean sends) {
        failed.incrementAndGet();
        StringBuilder texts = new StringBuilder();
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            texts.append(cause).append('\n');
        }
        String text = texts.toString();
        if (text.contains("Failed to allocate") || text.contains("BufferExhausted")) {
            exhausted.incrementAndGet();
        } else if (text.contains("metadata")) {
            unknown.incrementAndGet();
        } else if (text.contains("TimeoutException") && !sends) {
            expired.incrementAndGet();
        }
    }

    private static long age(Map<Long, Long> calls, long now) {
        return calls.values().stream().mapToLong(began -> now - began).max().orElse(0);
    }

    static void say(String what) {
        System.out.println(what);
        System.out.flush();
    }

    static void tell() {
        long now = System.currentTimeMillis();
        for (Truth t : ALL) {
            say(String.format(
                "TRUTH {\"ts\":%d,\"kind\":\"%s\",\"id\":\"%s\",\"attempted\":%d,\"acked\":%d,\"failed\":%d,"
                    + "\"expired\":%d,\"unknown\":%d,\"exhausted\":%d,\"polls\":%d,\"handled\":%d,\"others\":%d,\"sending_ms\":%d,"
                    + "\"callback_ms\":%d,\"longest_send_ms\":%d,\"longest_callback_ms\":%d,\"in\":\"%s\",\"paused\":%b}",
                now, t.kind, t.id, t.attempted.get(), t.acked.get(), t.failed.get(), t.expired.get(), t.unknown.get(),
                t.exhausted.get(), t.polls.get(), t.handled.get(), t.others.get(), age(t.sending, now), age(t.calling, now),
                t.longestSend, t.longestCallback, t.in, t.paused));
        }
    }
}
