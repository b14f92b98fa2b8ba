package clienthealth;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A broker plugin for the metrics that clients push (KIP-714). It writes each push to a topic as one record. The value
 * is the unchanged payload; headers identify the client.
 *
 * <p>A request thread of the broker only queues a push, and a thread of the plugin sends it. If the queue is full, the
 * push is lost and counted ({@link Counters}).
 *
 * <p>Settings of the broker, with defaults: {@code clienthealth.topic} (client-metrics), {@code clienthealth.queue.bytes}
 * (16 MiB). {@code clienthealth.producer.*} are options of the producer, of which {@code bootstrap.servers} is required.
 * With wrong settings the broker starts, but takes no pushes.
 */
@SuppressWarnings("removal") // Brokers before 4.2 have no other interface.
public class ClientTelemetryToTopic implements MetricsReporter, ClientTelemetry, ClientTelemetryReceiver {
    private static final Logger LOG = LoggerFactory.getLogger(ClientTelemetryToTopic.class);
    private static final boolean CALLS_NULL = ClientTelemetry.class.getResource("ClientTelemetryExporter.class") != null;
    private static final int MOST_PUSHES = 100_000;

    private final BlockingQueue<ProducerRecord<String, byte[]>> queue = new ArrayBlockingQueue<>(MOST_PUSHES);
    private PluginSettings settings;
    private Counters counters;
    private Thread sender;

    @Override
    public void configure(Map<String, ?> broker) {
        settings = new PluginSettings(broker);
        String target = "topic " + settings.topic + " at " + settings.servers();
        counters = new Counters(target, () -> TimeUnit.NANOSECONDS.toMillis(System.nanoTime()), LOG::warn);
    }

    /**
     * Starts the thread that sends pushes to the topic, and returns the receiver of pushes. A broker calls this method
     * once, a controller never.
     *
     * <p>If the settings are wrong, the result is null up to Kafka 4.1. Since 4.2, brokers do not check the
     * result for null, so it is a receiver that refuses each push.
     */
    @Override
    public synchronized ClientTelemetryReceiver clientReceiver() {
        if (sender != null) {
            return this;
        }
        if (!settings.unknown.isEmpty()) {
            LOG.warn("Neither the plugin nor a producer knows these settings: {}", String.join(", ", settings.unknown));
        }
        if (!settings.problems.isEmpty()) {
            LOG.error("Client telemetry is not taken by this broker until its settings are corrected and it is restarted: {}",
                    String.join("; ", settings.problems));
            return CALLS_NULL ? (context, payload) -> refuse() : null;
        }
        counters.register();
        sender = new Thread(this::send, "clienthealth-broker-plugin");
        sender.setDaemon(true);
        sender.start();
        LOG.info("Client telemetry is written to topic {} at {}", settings.topic, settings.servers());
        return this;
    }

    static void refuse() {
        throw new Refused();
    }

    /** Runs on a request thread of the broker. */
    @Override
    public final void exportMetrics(AuthorizableRequestContext context, ClientTelemetryPayload payload) {
        take(context, payload, 0);
    }

    /** Queues a push. {@code pushIntervalMs}: 0 if the broker does not provide the interval. */
    final void take(AuthorizableRequestContext context, ClientTelemetryPayload payload, int pushIntervalMs) {
        counters.received.incrementAndGet();
        ByteBuffer data = payload.data().duplicate();
        int size = data.remaining();
        if (counters.queuedBytes.addAndGet(size) > settings.mostBytes) {
            counters.queuedBytes.addAndGet(-size);
            counters.dropped();
            return;
        }
        byte[] value = new byte[size];
        data.get(value);
        if (!queue.offer(record(context, payload, value, pushIntervalMs))) {
            counters.queuedBytes.addAndGet(-size);
            counters.dropped();
        }
    }

    private ProducerRecord<String, byte[]> record(
            AuthorizableRequestContext context, ClientTelemetryPayload payload, byte[] value, int pushIntervalMs) {
        long now = System.currentTimeMillis();
        String instance = payload.clientInstanceId().toString();
        ProducerRecord<String, byte[]> record = new ProducerRecord<>(settings.topic, null, now, instance, value);
        Map<String, String> texts = new HashMap<>();
        texts.put("format", "otlp_metrics_protobuf");
        texts.put("client_id", context.clientId());
        texts.put("client_instance_id", instance);
        texts.put("client_address", context.clientAddress().getHostAddress());
        texts.put("principal", context.principal().toString());
        texts.put("listener", context.listenerName());
        texts.put("terminating", Boolean.toString(payload.isTerminating()));
        texts.put("broker_time_ms", Long.toString(now));
        texts.put("broker_id", settings.node);
        texts.put("push_interval_ms", pushIntervalMs > 0 ? Integer.toString(pushIntervalMs) : null);
        if (context instanceof RequestContext && ((RequestContext) context).clientInformation != null) {
            texts.put("client_software_name", ((RequestContext) context).clientInformation.softwareName());
            texts.put("client_software_version", ((RequestContext) context).clientInformation.softwareVersion());
        }
        texts.forEach((name, text) -> {
            if (text != null) {
                record.headers().add(name, text.getBytes(StandardCharsets.UTF_8));
            }
        });
        return record;
    }

    private void send() {
        try (Producer<String, byte[]> producer = producer()) {
            while (true) {
                ProducerRecord<String, byte[]> record = queue.take();
                counters.queuedBytes.addAndGet(-record.value().length);
                try {
                    producer.send(record, (stored, failure) -> {
                        if (failure != null) {
                            counters.failed(failure);
                        } else {
                            counters.forwarded.incrementAndGet();
                        }
                    });
                } catch (InterruptException closed) {
                    // The thread stays interrupted, so the next take() ends the loop.
                } catch (RuntimeException | LinkageError failure) {
                    // LinkageError: the native code of zstd could not be loaded.
                    counters.failed(failure);
                }
            }
        } catch (InterruptedException closed) {
            LOG.info("Client telemetry is no longer written to topic {}", settings.topic);
        }
    }

    /** Creates the producer. Retries, because the brokers' names may be unknown when this broker starts. */
    private Producer<String, byte[]> producer() throws InterruptedException {
        while (true) {
            try {
                return new KafkaProducer<>(settings.producer);
            } catch (RuntimeException | LinkageError failure) {
                counters.unreachable(failure);
                // Each attempt to create a producer writes log lines.
                Thread.sleep(Counters.QUIET_MS);
            }
        }
    }

    @Override
    public synchronized void close() {
        if (sender != null) {
            sender.interrupt();
            counters.unregister();
        }
    }

    @Override
    public void init(List<KafkaMetric> metrics) {}

    @Override
    public void metricChange(KafkaMetric metric) {}

    @Override
    public void metricRemoval(KafkaMetric metric) {}

    /** Has no stack trace, because the broker logs this exception for each push. */
    @SuppressWarnings("serial")
    private static final class Refused extends RuntimeException {
        private Refused() {
            super("The settings of " + ClientTelemetryToTopic.class.getName() + " are wrong", null, false, false);
        }
    }

    /** The counters that JMX shows. */
    public interface CountersMBean {
        /** Pushes from clients. */
        long getReceived();

        /** Pushes written to the topic. */
        long getForwarded();

        /** Pushes that could not be written. */
        long getFailed();

        /** Pushes that were dropped because the queue was full. */
        long getDropped();

        long getQueuedBytes();

        String getLastFailure();
    }
}
