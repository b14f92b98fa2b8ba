import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;

/**
 * One member of a group of each kind of Kafka 4, all in one JVM: `classic`, `consumer` (KIP-848), `streams` (KIP-1071)
 * and `share` (KIP-932). Arguments: brokers, prefix of the groups' names, the topic that all read.
 */
public class Groups {
    public static void main(String[] arguments) throws Exception {
        String servers = arguments[0], prefix = arguments[1], topic = arguments[2];
        for (String kind : List.of("classic", "consumer")) {
            Properties properties = properties(servers, prefix, kind);
            properties.put("group.protocol", kind);
            properties.put("auto.offset.reset", "earliest");
            KafkaConsumer<String, String> consumer =
                    new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
            consumer.subscribe(List.of(topic));
            forever(() -> {
                if (!consumer.poll(Duration.ofMillis(200)).isEmpty()) {
                    consumer.commitSync();
                }
            });
        }
        KafkaShareConsumer<String, String> share = new KafkaShareConsumer<>(
                properties(servers, prefix, "share"), new StringDeserializer(), new StringDeserializer());
        share.subscribe(List.of(topic));
        forever(() -> share.poll(Duration.ofMillis(200)));
        Properties properties = properties(servers, prefix, "streams");
        properties.put("application.id", prefix + "streams");
        properties.put("group.protocol", "streams");
        properties.put("commit.interval.ms", "200");
        properties.put("default.key.serde", Serdes.StringSerde.class.getName());
        properties.put("default.value.serde", Serdes.StringSerde.class.getName());
        properties.put("auto.offset.reset", "earliest");
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(topic).foreach((key, value) -> {});
        new KafkaStreams(builder.build(), properties).start();
        Thread.currentThread().join();
    }

    private static Properties properties(String servers, String prefix, String kind) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", servers);
        properties.put("group.id", prefix + kind);
        properties.put("client.id", kind + "-app");
        return properties;
    }

    private static void forever(Runnable step) {
        Thread thread = new Thread(() -> {
            while (true) {
                step.run();
            }
        });
        thread.setDaemon(true);
        thread.start();
    }
}
