package clienthealth;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The plugin's settings of a broker. Wrong settings cause no exception; `problems` and `unknown` describe them. */
final class PluginSettings {
    static final String PREFIX = "clienthealth.";
    static final String PRODUCER = PREFIX + "producer.";
    private static final String TOPIC = PREFIX + "topic";
    private static final String QUEUE_BYTES = PREFIX + "queue.bytes";
    private static final String TOPIC_NAME = "(?!\\.{1,2}$)[a-zA-Z0-9._-]{1,249}";

    final Map<String, Object> producer = new HashMap<>();
    /** Errors that keep the plugin from forwarding. */
    final List<String> problems = new ArrayList<>();
    /** Unknown settings. They are ignored, because they may belong to a class that the producer loads. */
    final List<String> unknown = new ArrayList<>();

    final String topic;
    final String node;
    final long mostBytes;

    PluginSettings(Map<String, ?> broker) {
        topic = text(broker, TOPIC, "client-metrics");
        node = text(broker, "node.id", text(broker, "broker.id", ""));
        if (!topic.matches(TOPIC_NAME)) {
            problems.add(TOPIC + "=" + topic + " is not a valid topic name");
        }
        mostBytes = bytes(text(broker, QUEUE_BYTES, Long.toString(16 << 20)));
        fillProducer(broker);
        findUnknown(broker);
    }

    String servers() {
        return String.valueOf(producer.get("bootstrap.servers"));
    }

    private long bytes(String value) {
        try {
            long number = Long.parseLong(value);
            if (number > 0) {
                return number;
            }
        } catch (NumberFormatException other) {
            // Reported below, like a number below 1.
        }
        problems.add(QUEUE_BYTES + "=" + value + " is not a whole number of bytes above 0, such as 16777216");
        return 0;
    }

    private void fillProducer(Map<String, ?> broker) {
        producer.put("client.id", "clienthealth-broker-plugin");
        producer.put("compression.type", "zstd");
        producer.put("linger.ms", "500");
        producer.put("batch.size", "262144");
        producer.put("buffer.memory", "8388608");
        // telemetry.max.bytes (1 MiB by default) limits compressed pushes, but the broker passes them on uncompressed.
        producer.put("max.request.size", "4194304");
        producer.put("max.block.ms", "10000");
        producer.put("delivery.timeout.ms", "60000");
        producer.put("acks", "1");
        producer.put("enable.idempotence", "false");
        // The producer logs each attempt to connect, so it must connect at most once a minute.
        producer.put("reconnect.backoff.ms", "1000");
        producer.put("reconnect.backoff.max.ms", "60000");
        producer.put("retry.backoff.max.ms", "60000");
        broker.forEach((name, value) -> {
            if (name.startsWith(PRODUCER) && value != null) {
                producer.put(name.substring(PRODUCER.length()), value.toString().trim());
            }
        });
        // Without this setting, the plugin's producer would push its own metrics to its broker.
        producer.put("enable.metrics.push", "false");
        producer.put("key.serializer", StringSerializer.class.getName());
        producer.put("value.serializer", ByteArraySerializer.class.getName());
        Map<String, String> options = new HashMap<>();
        producer.forEach((name, value) -> options.put(name, value.toString()));
        for (ConfigValue checked : ProducerConfig.configDef().validate(options)) {
            // After an invalid value, a second error says that the value is missing.
            checked.errorMessages().stream().limit(1).forEach(text -> problems.add(PRODUCER + checked.name() + ": " + text));
        }
        if (text(producer, "bootstrap.servers", "").isEmpty()) {
            problems.add(PRODUCER + "bootstrap.servers is missing: the brokers that have topic " + topic);
        }
    }

    private void findUnknown(Map<String, ?> broker) {
        Map<String, String> known = new TreeMap<>();
        for (String option : ProducerConfig.configNames()) {
            known.put(option, PRODUCER + option);
            known.put((PRODUCER + option).substring(PREFIX.length()), PRODUCER + option);
        }
        List.of(TOPIC, QUEUE_BYTES).forEach(name -> known.put(name.substring(PREFIX.length()), name));
        for (String name : new TreeSet<>(broker.keySet())) {
            int dot = name.indexOf('.') + 1;
            if (known.containsValue(name) || distance(name.substring(0, dot).toLowerCase(Locale.ROOT), PREFIX) > 2) {
                continue;
            }
            String ending = name.substring(dot);
            String nearest = Collections.min(known.keySet(), Comparator.comparingInt(other -> distance(ending, other)));
            boolean near = distance(ending, nearest) <= ending.length() / 2;
            unknown.add(name + (near ? " (do you mean " + known.get(nearest) + "?)" : ""));
        }
    }

    /** Returns the edit distance (Levenshtein) between two texts. */
    private static int distance(String one, String other) {
        int[] before = new int[other.length() + 1];
        Arrays.setAll(before, column -> column);
        for (int row = 1; row <= one.length(); row++) {
            int[] now = new int[other.length() + 1];
            now[0] = row;
            for (int column = 1; column <= other.length(); column++) {
                int changed = before[column - 1] + (one.charAt(row - 1) == other.charAt(column - 1) ? 0 : 1);
                now[column] = Math.min(changed, 1 + Math.min(before[column], now[column - 1]));
            }
            before = now;
        }
        return before[other.length()];
    }

    private static String text(Map<String, ?> settings, String name, String otherwise) {
        Object value = settings.get(name);
        return value == null ? otherwise : value.toString().trim();
    }
}
