package orders;

import java.util.Properties;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;

/** Copies a topic to TOPIC-out by Kafka Streams with the options of Plain's consumers; `clients`: number of threads. */
public class Streams {
    private static final Pattern NUMBER = Pattern.compile("StreamThread-(\\d+)");

    public static void main(String[] args) throws Exception {
        String topic = System.getProperty("topic");
        int clients = Integer.getInteger("clients", 1);
        Properties given = Control.options("c.", 0);
        Properties options = new Properties();
        options.put("application.id", given.remove("group.id"));
        options.put("client.id", given.get("client.id"));
        options.put("bootstrap.servers", given.remove("bootstrap.servers"));
        options.put("num.stream.threads", clients);
        options.put("commit.interval.ms", 1000);
        options.put("state.dir", "state");
        String id = String.valueOf(given.remove("client.id"));
        given.stringPropertyNames().forEach(name -> options.put("consumer." + name, given.getProperty(name)));
        Trouble[] troubles = new Trouble[clients];
        for (int i = 0; i < clients; i++) {
            Truth truth = Truth.of("consumer", id + "-StreamThread-" + (i + 1) + "-consumer");
            troubles[i] = new Trouble(null, topic, truth, i);
        }
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(topic, Consumed.with(Serdes.ByteArray(), Serdes.ByteArray())).mapValues(value -> {
            Matcher number = NUMBER.matcher(Thread.currentThread().getName());
            troubles[number.find() ? Integer.parseInt(number.group(1)) - 1 : 0].handled(topic);
            return value;
        }).to(topic + "-out", Produced.with(Serdes.ByteArray(), Serdes.ByteArray()));
        KafkaStreams streams = new KafkaStreams(builder.build(), options);
        Control.run(how -> streams.close());
        Runtime.getRuntime().addShutdownHook(new Thread(Control::hook, "streams-shutdown-hook"));
        streams.start();
        Control.await();
    }
}
