package clienthealth;

import java.lang.management.ManagementFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import javax.management.StandardMBean;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Counts pushes for JMX, and logs at most one line a minute about lost pushes. */
final class Counters implements ClientTelemetryToTopic.CountersMBean {
    static final String NAME = "clienthealth:type=ClientTelemetryToTopic";
    static final long QUIET_MS = TimeUnit.MINUTES.toMillis(1);
    private static final Logger LOG = LoggerFactory.getLogger(Counters.class);

    final AtomicLong received = new AtomicLong();
    final AtomicLong forwarded = new AtomicLong();
    final AtomicLong queuedBytes = new AtomicLong();
    private final AtomicLong failed = new AtomicLong();
    private final AtomicLong dropped = new AtomicLong();
    private final String target;
    private final LongSupplier clockMs;
    private final Consumer<String> log;
    private volatile String lastFailure = "";
    private volatile long nextLineMs;
    private String newFailure = "";
    private long failedBefore;
    private long droppedBefore;

    /** {@code clockMs}: a monotonic clock. */
    Counters(String target, LongSupplier clockMs, Consumer<String> log) {
        this.target = target;
        this.clockMs = clockMs;
        this.log = log;
        nextLineMs = clockMs.getAsLong();
    }

    void failed(Throwable failure) {
        failed.incrementAndGet();
        unreachable(failure);
    }

    void dropped() {
        dropped.incrementAndGet();
        report();
    }

    /** Shows in JMX and in the log why pushes cannot be sent. */
    void unreachable(Throwable failure) {
        String text = sentence(failure);
        synchronized (this) {
            lastFailure = text;
            newFailure = text;
        }
        report();
    }

    private void report() {
        // Request threads call this method for each dropped push, so it usually returns at once.
        if (clockMs.getAsLong() < nextLineMs) {
            return;
        }
        synchronized (this) {
            if (clockMs.getAsLong() < nextLineMs) {
                return;
            }
            long failures = failed.get();
            long drops = dropped.get();
            String reason = newFailure.isEmpty() ? "the queue is full" : newFailure;
            log.accept("Client telemetry does not reach " + target + ": " + reason + ". Pushes lost since the last such line: "
                    + (failures - failedBefore) + " could not be written, " + (drops - droppedBefore)
                    + " found the queue full. JMX counts on: " + NAME);
            failedBefore = failures;
            droppedBefore = drops;
            newFailure = "";
            nextLineMs = clockMs.getAsLong() + QUIET_MS;
        }
    }

    /** Returns an exception and its causes as one sentence, without their stacks. */
    private static String sentence(Throwable failure) {
        StringBuilder text = new StringBuilder(failure.getClass().getSimpleName());
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            text.append(": ").append(String.valueOf(cause.getMessage()).replaceAll("\\.$", ""));
        }
        return text.toString();
    }

    void register() {
        try {
            MBeanServer server = ManagementFactory.getPlatformMBeanServer();
            server.registerMBean(new StandardMBean(this, ClientTelemetryToTopic.CountersMBean.class), new ObjectName(NAME));
        } catch (JMException failure) {
            LOG.warn("The counters of client telemetry are not in JMX: {}", sentence(failure));
        }
    }

    void unregister() {
        try {
            ManagementFactory.getPlatformMBeanServer().unregisterMBean(new ObjectName(NAME));
        } catch (JMException failure) {
            LOG.warn("The counters of client telemetry stay in JMX: {}", sentence(failure));
        }
    }

    @Override
    public long getReceived() {
        return received.get();
    }

    @Override
    public long getForwarded() {
        return forwarded.get();
    }

    @Override
    public long getFailed() {
        return failed.get();
    }

    @Override
    public long getDropped() {
        return dropped.get();
    }

    @Override
    public long getQueuedBytes() {
        return queuedBytes.get();
    }

    @Override
    public String getLastFailure() {
        return lastFailure;
    }
}
