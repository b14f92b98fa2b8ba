import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/**
 * Runs groups of every kind of Kafka 4 in one process: one member of each, and a producer that feeds them. The kinds
 * are classic, consumer (KIP-848), streams (KIP-1071) and share (KIP-932). The members are healthy, or have a handler
 * that is slow or refuses records. Needs kafka-streams 4.1 or newer. Options are system properties:
 *
 * kinds               the kinds to run, comma separated
 * topics              the topics that all members read, comma separated
 * rate                records/s to each topic; 0: no producer
 * size                size of a record in bytes
 * p.NAME, c.NAME, s.NAME  options of the producer, of consumers, of Streams. In group.id, client.id and
 *                     application.id, `{}` stands for the name of the kind
 * slow.topic          the topic with the slow handler; by default all topics
 * handle.ms           time (ms) that the slow handler takes for each record
 * slow.after          seconds until the handler is slow
 * refuse.after        seconds until the share consumer releases every record that it gets
 * second.after        seconds until a second, healthy member of each kind joins
 * grouped             the Streams members count records by key, through an internal repartition topic
 * grouped.second      only the second Streams member counts records by key, so the two topologies differ
 * waits               waits at the start until the brokers support all kinds
 *
 * When the failure begins, the program prints ONSET, the time (epoch ms) and a text. Every few seconds, it prints
 * COUNTERS and a JSON object. Its field `consumed` is the number of records that the slowest kind has consumed.
 */
public class Groups {
    private static final List<String> TOPICS = Arrays.asList(System.getProperty("topics", "orders").split(","));
    private static final String[] KINDS = System.getProperty("kinds", "classic,consumer,streams,share").split(",");
    private static final String SLOW_TOPIC = System.getProperty("slow.topic", "");
    private static final long HANDLE_MS = Long.getLong("handle.ms", 0);
    private static final long BEGIN = System.nanoTime();
    private static final LongAdder ACKNOWLEDGED = new LongAdder();
    private static final LongAdder FAILED = new LongAdder();
    private static final Map<String, LongAdder> CONSUMED = Collections.synchronizedMap(new TreeMap<>());
    private static final AtomicBoolean BEGUN = new AtomicBoolean();
    private static final List<Thread> LOOPS = Collections.synchronizedList(new ArrayList<>());
    private static final List<AutoCloseable> OPEN = Collections.synchronizedList(new ArrayList<>());
    private static volatile boolean ending;

    public static void main(String[] args) throws Exception {
        prepare();
        Runtime.getRuntime().addShutdownHook(new Thread(Groups::end, "shutdown"));
        if (Double.parseDouble(System.getProperty("rate", "20")) > 0) {
            loop("api", Groups::produce);
        }
        for (String kind : KINDS) {
            CONSUMED.put(kind, new LongAdder());
            start(kind, "", false);
        }
        long second = Long.getLong("second.after", 0);
        long seconds = Long.getLong("seconds", 0);
        while (seconds == 0 || !passed(seconds)) {
            LockSupport.parkNanos(TimeUnit.SECONDS.toNanos(5));
            report();
            if (second > 0 && passed(second)) {
                second = 0;
                for (String kind : KINDS) {
                    start(kind, "-2", true);
                }
            }
        }
        System.exit(0);
    }

    private static boolean passed(long seconds) {
        return System.nanoTime() - BEGIN > TimeUnit.SECONDS.toNanos(seconds);
    }

    private static void start(String kind, String suffix, boolean healthy) {
        if (kind.equals("streams")) {
            streams(suffix, healthy);
        } else {
            String name = (kind.equals("share") ? "picking" : "billing") + suffix;
            loop(name, () -> {
                if (kind.equals("share")) {
                    share(suffix, healthy);
                } else {
                    consume(kind, suffix, healthy);
                }
            });
        }
    }

    /** Makes share groups begin at the earliest record, which no client option does. */
    private static void prepare() throws Exception {
        Properties options = new Properties();
        options.put("bootstrap.servers", options("c.", "classic", "").get("bootstrap.servers"));
        options.put("client.id", "setup");
        try (Admin admin = Admin.create(options)) {
            while (Boolean.getBoolean("waits") && !admin.describeFeatures().featureMetadata().get().finalizedFeatures()
                    .keySet().containsAll(Set.of("group.version", "share.version", "streams.version"))) {
                LockSupport.parkNanos(TimeUnit.SECONDS.toNanos(5));
            }
            if (Arrays.asList(KINDS).contains("share")) {
                String group = options("c.", "share", "").getProperty("group.id");
                ConfigEntry earliest = new ConfigEntry("share.auto.offset.reset", "earliest");
                admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, group),
                    List.of(new AlterConfigOp(earliest, AlterConfigOp.OpType.SET)))).all().get();
            }
        }
    }

    private static void loop(String name, Runnable run) {
        Thread thread = new Thread(run, name);
        LOOPS.add(thread);
        thread.start();
    }

    /**
     * Returns client options: default ids, and the system properties that begin with `prefix`, without the prefix. In
     * values, `kind` replaces `{}`. The client id ends with `suffix`.
     */
    private static Properties options(String prefix, String kind, String suffix) {
        Properties options = new Properties();
        options.put("client.id", "{}-app");
        options.put(prefix.equals("s.") ? "application.id" : "group.id", "{}");
        for (String name : System.getProperties().stringPropertyNames()) {
            if (name.startsWith(prefix)) {
                options.put(name.substring(prefix.length()), System.getProperty(name));
            }
        }
        options.replaceAll((name, value) -> value.toString().replace("{}", kind));
        options.compute("client.id", (name, value) -> value + suffix);
        return options;
    }

    private static void produce() {
        Properties options = options("p.", "producer", "");
        options.remove("group.id");
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(options, new ByteArraySerializer(), new ByteArraySerializer());
        byte[] payload = new byte[Integer.getInteger("size", 512)];
        long pauseNanos = (long) (1e9 / Double.parseDouble(System.getProperty("rate", "20")));
        for (int number = 0; !ending; number++) {
            byte[] key = {(byte) number};
            for (String topic : TOPICS) {
                producer.send(new ProducerRecord<>(topic, key, payload), (metadata, error) -> {
                    (error == null ? ACKNOWLEDGED : FAILED).increment();
                });
            }
            LockSupport.parkNanos(pauseNanos);
        }
        producer.close();
    }

    private static void consume(String kind, String suffix, boolean healthy) {
        Properties options = options("c.", kind, suffix);
        options.put("group.protocol", kind);
        options.putIfAbsent("auto.offset.reset", "earliest");
        KafkaConsumer<byte[], byte[]> consumer =
            new KafkaConsumer<>(options, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        OPEN.add(consumer::wakeup);
        consumer.subscribe(TOPICS);
        try {
            while (!ending) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    handle(kind, record.topic(), healthy);
                }
            }
        } catch (WakeupException end) {
            if (!ending) {
                throw end;
            }
        }
        consumer.close();
    }

    private static void share(String suffix, boolean healthy) {
        Properties options = options("c.", "share", suffix);
        options.keySet().removeAll(Set.of("auto.offset.reset", "enable.auto.commit"));
        long refuseAfter = Long.getLong("refuse.after", Integer.MAX_VALUE);
        options.put("share.acknowledgement.mode", refuseAfter < Integer.MAX_VALUE ? "explicit" : "implicit");
        KafkaShareConsumer<byte[], byte[]> consumer =
            new KafkaShareConsumer<>(options, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        OPEN.add(consumer::wakeup);
        consumer.subscribe(TOPICS);
        while (!ending) {
            try {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofSeconds(1));
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    handle("share", record.topic(), healthy);
                    if (refuseAfter < Integer.MAX_VALUE) {
                        boolean refused = !healthy && passed(refuseAfter);
                        if (refused) {
                            begin("all that is given to the share consumer is released");
                        }
                        consumer.acknowledge(record, refused ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
                    }
                }
            } catch (WakeupException end) {
                if (!ending) {
                    throw end;
                }
            } catch (KafkaException failed) {
                System.out.println("share consumer: " + failed);
            }
        }
        consumer.close();
    }

    private static void streams(String suffix, boolean healthy) {
        Properties options = options("s.", "streams", suffix);
        options.putIfAbsent("group.protocol", "streams");
        options.putIfAbsent("commit.interval.ms", "1000");
        options.putIfAbsent("state.dir", "state" + suffix);
        options.putIfAbsent("auto.offset.reset", "earliest");
        options.put("default.key.serde", Serdes.ByteArraySerde.class.getName());
        options.put("default.value.serde", Serdes.ByteArraySerde.class.getName());
        StreamsBuilder builder = new StreamsBuilder();
        KStream<byte[], byte[]> orders = builder.stream(TOPICS);
        if (Boolean.getBoolean("grouped") || healthy && Boolean.getBoolean("grouped.second")) {
            orders.map((key, value) -> new org.apache.kafka.streams.KeyValue<>(Bytes.wrap(key), value))
                .groupByKey(org.apache.kafka.streams.kstream.Grouped.with(Serdes.Bytes(), Serdes.ByteArray()))
                .count(Materialized.as(Stores.inMemoryKeyValueStore("counts")));
        }
        orders.process(() -> new org.apache.kafka.streams.processor.api.ContextualProcessor<byte[], byte[], Void, Void>() {
            @Override
            public void process(org.apache.kafka.streams.processor.api.Record<byte[], byte[]> record) {
                handle("streams", context().recordMetadata().get().topic(), healthy);
            }
        });
        KafkaStreams streams = new KafkaStreams(builder.build(), options);
        OPEN.add(() -> streams.close(Duration.ofSeconds(5)));
        streams.setUncaughtExceptionHandler(failed -> {
            begin("Streams: " + failed);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
    }

    private static void handle(String kind, String topic, boolean healthy) {
        boolean slow = !healthy && HANDLE_MS > 0 && (SLOW_TOPIC.isEmpty() || SLOW_TOPIC.equals(topic));
        if (slow && passed(Long.getLong("slow.after", 0))) {
            begin("slow handler of " + topic);
            long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(HANDLE_MS);
            while (!ending && System.nanoTime() < until) {
                LockSupport.parkNanos(until - System.nanoTime());
            }
        }
        CONSUMED.get(kind).increment();
    }

    private static void begin(String what) {
        if (BEGUN.compareAndSet(false, true)) {
            System.out.println("ONSET " + System.currentTimeMillis() + " " + what);
        }
    }

    private static void end() {
        ending = true;
        for (AutoCloseable open : new ArrayList<>(OPEN)) {
            try {
                open.close();
            } catch (Exception failed) {
                System.out.println("not closed: " + failed);
            }
        }
        for (Thread loop : new ArrayList<>(LOOPS)) {
            LockSupport.unpark(loop);
            try {
                loop.join();
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        }
        report();
    }

    private static void report() {
        long fewest = CONSUMED.values().stream().mapToLong(LongAdder::sum).min().orElse(0);
        StringBuilder each = new StringBuilder();
        CONSUMED.forEach((kind, count) -> each.append(", \"").append(kind).append("\": ").append(count.sum()));
        System.out.printf(
            "COUNTERS {\"ts\": %d, \"acknowledged\": %d, \"failed\": %d, \"consumed\": %d%s}%n",
            System.currentTimeMillis(), ACKNOWLEDGED.sum(), FAILED.sum(), fewest, each);
    }
}
