import java.io.File;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.ConcurrentMessageListenerContainer;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.MessageListener;

/**
 * A listener of Spring Kafka, with a template that feeds its topic. System properties as those of Service; ack: a name
 * of ContainerProperties.AckMode. Where the file "hang" exists, the listener does not return.
 */
public class Listener {
    public static void main(String[] args) throws Exception {
        Map<String, Object> consuming = options("c.");
        consuming.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        consuming.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        consuming.put("auto.offset.reset", "earliest");
        Map<String, Object> producing = options("p.");
        producing.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        producing.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        String topic = System.getProperty("topic");
        ContainerProperties properties = new ContainerProperties(topic);
        properties.setAckMode(ContainerProperties.AckMode.valueOf(System.getProperty("ack", "RECORD")));
        properties.setMessageListener((MessageListener<byte[], byte[]>) Listener::handle);
        ConcurrentMessageListenerContainer<byte[], byte[]> container =
            new ConcurrentMessageListenerContainer<>(new DefaultKafkaConsumerFactory<>(consuming), properties);
        container.setBeanName("orders");
        container.start();
        KafkaTemplate<byte[], byte[]> template =
            new KafkaTemplate<>(new DefaultKafkaProducerFactory<>(producing));
        while (true) {
            try {
                template.send(topic, new byte[200]);
            } catch (RuntimeException failed) {
                org.slf4j.LoggerFactory.getLogger(Listener.class).warn("goes on after: {}", failed.toString());
            }
            Thread.sleep(200);
        }
    }

    private static Map<String, Object> options(String prefix) {
        Map<String, Object> options = new HashMap<>();
        for (String name : System.getProperties().stringPropertyNames()) {
            if (name.startsWith(prefix)) {
                options.put(name.substring(prefix.length()), System.getProperty(name));
            }
        }
        return options;
    }

    private static void handle(ConsumerRecord<byte[], byte[]> record) {
        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(Long.getLong("handle.ms", 150)));
        if (new File("hang").exists()) {
            try {
                new CountDownLatch(1).await();
            } catch (InterruptedException never) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
