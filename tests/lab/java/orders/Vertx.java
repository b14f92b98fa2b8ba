package orders;

import io.vertx.kafka.client.consumer.KafkaConsumer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;

/** Consumers of Vert.x with the options of Plain; each consumer has event loops and its own polling thread. */
public class Vertx {
    public static void main(String[] args) throws Exception {
        List<KafkaConsumer<byte[], byte[]>> consumers = new ArrayList<>();
        for (int i = 0; i < Integer.getInteger("clients", 1); i++) {
            Properties given = Control.options("c.", i);
            Map<String, String> options = new HashMap<>();
            given.stringPropertyNames().forEach(name -> options.put(name, given.getProperty(name)));
            Trouble trouble = new Trouble(null, null, Truth.of("consumer", given.getProperty("client.id")), i);
            KafkaConsumer<byte[], byte[]> consumer =
                KafkaConsumer.create(io.vertx.core.Vertx.vertx(), options, byte[].class, byte[].class);
            consumer.handler(record -> trouble.handled(record.topic()));
            consumer.subscribe(new HashSet<>(Arrays.asList(System.getProperty("topic").split(","))));
            consumers.add(consumer);
        }
        Control.run(how -> {
            CompletableFuture<?> closed = new CompletableFuture<>();
            consumers.get(0).close().onComplete(done -> closed.complete(null));
            closed.join();
        });
        Control.await();
    }
}
