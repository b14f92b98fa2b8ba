package clienthealth;

import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.atomic.AtomicLong;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A broker's plugin that writes what clients push (KIP-714) to a topic: the payload as it came, who pushed it as headers.
 *
 * <p>A request thread of the broker only copies a push into a bounded queue; a thread of our own sends it. Where the
 * topic is away the queue fills and pushes are dropped and counted: MBean {@code clienthealth:type=ClientTelemetryToTopic}.
 *
 * <p>Settings of the broker: {@code clienthealth.topic} (client-metrics), {@code clienthealth.queue.bytes} (16 MiB), and
 * {@code clienthealth.producer.*}, given to the producer; {@code clienthealth.producer.bootstrap.servers} is required.
 */
public final class ClientTelemetryToTopic implements MetricsReporter, ClientTelemetry, ClientTelemetryReceiver {
    static final String PREFIX = "clienthealth.";
    static final String PRODUCER = PREFIX + "producer.";
    private static final Logger LOG = LoggerFactory.getLogger(ClientTelemetryToTopic.class);
    private static final int MOST_PUSHES = 100_000;
    private static final long RETRY_MS = 5_000;

    private final BlockingQueue<ProducerRecord<String, byte[]>> queue = new ArrayBlockingQueue<>(MOST_PUSHES);
    private final Counters counters = new Counters();
    private final Map<String, Object> options = new HashMap<>();
    private String topic = "client-metrics";
    private String node = "";
    private long mostBytes = 16 << 20;
    private Thread sender;

    @Override
    public void configure(Map<String, ?> broker) {
        options.put("client.id", "clienthealth-broker-plugin");
        options.put("compression.type", "zstd");
        options.put("linger.ms", "500");
        options.put("batch.size", "262144");
        options.put("buffer.memory", "8388608");
        // One push may have telemetry.max.bytes, unpacked a multiple of it.
        options.put("max.request.size", "4194304");
        options.put("max.block.ms", "10000");
        options.put("delivery.timeout.ms", "60000");
        options.put("acks", "1");
        options.put("enable.idempotence", "false");
        broker.forEach((name, value) -> {
            if (name.startsWith(PRODUCER) && value != null) {
                options.put(name.substring(PRODUCER.length()), value.toString());
            }
        });
        // Else it would push to itself.
        options.put("enable.metrics.push", "false");
        if (!options.containsKey("bootstrap.servers")) {
            throw new ConfigException(PRODUCER + "bootstrap.servers is missing: where " + topic + " is");
        }
        topic = text(broker, PREFIX + "topic", topic);
        mostBytes = Long.parseLong(text(broker, PREFIX + "queue.bytes", Long.toString(mostBytes)));
        node = text(broker, "node.id", text(broker, "broker.id", ""));
    }

    /** Asked for once, by a broker and not by a controller: only now is there something to send. */
    @Override
    public synchronized ClientTelemetryReceiver clientReceiver() {
        if (sender == null) {
            counters.register();
            sender = new Thread(this::send, "clienthealth-broker-plugin");
            sender.setDaemon(true);
            sender.start();
            LOG.info("Client telemetry is written to topic {} at {}", topic, options.get("bootstrap.servers"));
        }
        return this;
    }

    /** On a request thread: copies, hands over and returns. */
    @Override
    public void exportMetrics(AuthorizableRequestContext context, ClientTelemetryPayload payload) {
        counters.received.incrementAndGet();
        ByteBuffer data = payload.data().duplicate();
        int size = data.remaining();
        if (counters.queuedBytes.addAndGet(size) > mostBytes) {
            counters.queuedBytes.addAndGet(-size);
            counters.dropped.incrementAndGet();
            return;
        }
        byte[] value = new byte[size];
        data.get(value);
        if (!queue.offer(record(context, payload, value))) {
            counters.queuedBytes.addAndGet(-size);
            counters.dropped.incrementAndGet();
        }
    }

    private ProducerRecord<String, byte[]> record(
            AuthorizableRequestContext context, ClientTelemetryPayload payload, byte[] value) {
        long now = System.currentTimeMillis();
        String instance = payload.clientInstanceId().toString();
        ProducerRecord<String, byte[]> record = new ProducerRecord<>(topic, null, now, instance, value);
        Map<String, String> said = new HashMap<>();
        said.put("format", "otlp_metrics_protobuf");
        said.put("client_id", context.clientId());
        said.put("client_instance_id", instance);
        said.put("client_address", context.clientAddress().getHostAddress());
        said.put("principal", context.principal().toString());
        said.put("listener", context.listenerName());
        said.put("terminating", Boolean.toString(payload.isTerminating()));
        said.put("broker_time_ms", Long.toString(now));
        said.put("broker_id", node);
        if (context instanceof RequestContext && ((RequestContext) context).clientInformation != null) {
            said.put("client_software_name", ((RequestContext) context).clientInformation.softwareName());
            said.put("client_software_version", ((RequestContext) context).clientInformation.softwareVersion());
        }
        said.forEach((name, text) -> {
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
                } catch (KafkaException failure) {
                    counters.failed(failure);
                }
            }
        } catch (InterruptedException closed) {
            LOG.info("Client telemetry is no longer written to topic {}", topic);
        }
    }

    /** Made once the names of the brokers can be resolved, which may come after the start of this one. */
    private Producer<String, byte[]> producer() throws InterruptedException {
        while (true) {
            try {
                return new KafkaProducer<>(options, new StringSerializer(), new ByteArraySerializer());
            } catch (KafkaException failure) {
                LOG.warn("Client telemetry cannot be written, trying again in {} ms", RETRY_MS, failure);
                Thread.sleep(RETRY_MS);
            }
        }
    }

    private static String text(Map<String, ?> settings, String name, String otherwise) {
        Object value = settings.get(name);
        return value == null ? otherwise : value.toString();
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

    /** What JMX shows. */
    public interface CountersMBean {
        /** Pushes that clients made. */
        long getReceived();

        /** Pushes that are on the topic. */
        long getForwarded();

        /** Pushes that were thrown away because the queue was full, or could not be written. */
        long getDropped();

        long getQueuedBytes();

        String getLastFailure();
    }

    private static final class Counters implements CountersMBean {
        private static final String NAME = "clienthealth:type=ClientTelemetryToTopic";
        private final AtomicLong received = new AtomicLong();
        private final AtomicLong forwarded = new AtomicLong();
        private final AtomicLong dropped = new AtomicLong();
        private final AtomicLong queuedBytes = new AtomicLong();
        private volatile String lastFailure = "";

        private void failed(Exception failure) {
            if (dropped.incrementAndGet() == 1) {
                LOG.warn("Client telemetry is dropped; JMX counts how much of it: {}", NAME, failure);
            }
            lastFailure = failure.toString();
        }

        private void register() {
            try {
                MBeanServer server = ManagementFactory.getPlatformMBeanServer();
                server.registerMBean(new javax.management.StandardMBean(this, CountersMBean.class), new ObjectName(NAME));
            } catch (JMException failure) {
                LOG.warn("Its counters are not in JMX", failure);
            }
        }

        private void unregister() {
            try {
                ManagementFactory.getPlatformMBeanServer().unregisterMBean(new ObjectName(NAME));
            } catch (JMException failure) {
                LOG.warn("Its counters stay in JMX", failure);
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
}
