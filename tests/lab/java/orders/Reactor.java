package orders;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import reactor.core.Disposable;
import reactor.core.Disposables;
import reactor.kafka.receiver.KafkaReceiver;
import reactor.kafka.receiver.ReceiverOptions;

/**
 * Receivers of Reactor Kafka with the options of Plain's consumers. A slow handler gets no more records, while polls
 * continue.
 */
public class Reactor {
    public static void main(String[] args) throws Exception {
        Disposable.Composite receivers = Disposables.composite();
        for (int i = 0; i < Integer.getInteger("clients", 1); i++) {
            Properties given = Control.options("c.", i);
            Map<String, Object> options = new HashMap<>();
            given.stringPropertyNames().forEach(name -> options.put(name, given.getProperty(name)));
            Trouble trouble = new Trouble(null, null, Truth.of("consumer", given.getProperty("client.id")), i);
            ReceiverOptions<byte[], byte[]> receiver = ReceiverOptions.<byte[], byte[]>create(options)
                .withKeyDeserializer(new ByteArrayDeserializer())
                .withValueDeserializer(new ByteArrayDeserializer())
                .subscription(Arrays.asList(System.getProperty("topic").split(",")));
            receivers.add(KafkaReceiver.create(receiver).receive().subscribe(record -> {
                trouble.handled(record.topic());
                record.receiverOffset().acknowledge();
            }));
        }
        Control.run(how -> receivers.dispose());
        Control.await();
    }
}
