import java.io.File;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Kafka Streams that counts the records of a topic by key, and a producer that feeds it. System properties as those of
 * Service; s.NAME: options of Streams. Where the file "hang" exists, the processor does not return.
 */
public class Topology {
    public static void main(String[] args) throws Exception {
        String topic = System.getProperty("topic");
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(topic, Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
            .mapValues(Topology::handle)
            .selectKey((key, value) -> "all")
            .groupByKey(Grouped.with(Serdes.String(), Serdes.ByteArray()))
            .count().toStream().to(topic + "-out", Produced.with(Serdes.String(), Serdes.Long()));
        KafkaStreams streams = new KafkaStreams(builder.build(), options("s."));
        streams.start();
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(options("p."), new ByteArraySerializer(), new ByteArraySerializer());
        while (true) {
            try {
                producer.send(new ProducerRecord<>(topic, new byte[200]));
            } catch (KafkaException failed) {
                org.slf4j.LoggerFactory.getLogger(Topology.class).warn("goes on after: {}", failed.toString());
            }
            Thread.sleep(200);
        }
    }

    private static Properties options(String prefix) {
        Properties options = new Properties();
        for (String name : System.getProperties().stringPropertyNames()) {
            if (name.startsWith(prefix)) {
                options.put(name.substring(prefix.length()), System.getProperty(name));
            }
        }
        return options;
    }

    private static byte[] handle(byte[] value) {
        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(Long.getLong("handle.ms", 150)));
        if (new File("hang").exists()) {
            try {
                new CountDownLatch(1).await();
            } catch (InterruptedException never) {
                Thread.currentThread().interrupt();
            }
        }
        return value;
    }
}
