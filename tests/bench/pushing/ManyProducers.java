import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Runs many producers in one JVM until SIGTERM. Prints READY once a record of each producer is acknowledged. System
 * properties: `producers` (their number), `topic`, `every.seconds` (time between two records of a producer).
 */
public class ManyProducers {
    private static final byte[] PAYLOAD = new byte[100];

    public static void main(String[] args) throws Exception {
        int count = Integer.getInteger("producers");
        List<KafkaProducer<byte[], byte[]>> producers = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            Properties options = new Properties();
            options.put("bootstrap.servers", System.getProperty("servers"));
            options.put("client.id", "pusher-" + i);
            options.put("buffer.memory", "1048576");
            producers.add(new KafkaProducer<>(options, new ByteArraySerializer(), new ByteArraySerializer()));
            send(producers.get(i)).get();
        }
        System.out.println("READY");
        long pauseNanos = (long) (Double.parseDouble(System.getProperty("every.seconds")) * 1e9 / count);
        long next = System.nanoTime();
        for (int i = 0; ; i = (i + 1) % count) {
            send(producers.get(i));
            next += pauseNanos;
            LockSupport.parkNanos(next - System.nanoTime());
        }
    }

    private static Future<RecordMetadata> send(KafkaProducer<byte[], byte[]> producer) {
        return producer.send(new ProducerRecord<>(System.getProperty("topic"), PAYLOAD));
    }
}
