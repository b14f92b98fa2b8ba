package orders;

import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.ConcurrentMessageListenerContainer;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.MessageListener;
import org.springframework.kafka.support.ProducerListener;

/** A listener or a template of Spring Kafka with the options of Plain; `clients`: the listener's concurrency. */
public class Spring {
    private static final Logger LOG = LoggerFactory.getLogger(Spring.class);
    private static final Pattern NUMBER = Pattern.compile("-(\\d+)-C-");
    private static final String TOPIC = System.getProperty("topic");

    public static void main(String[] args) throws Exception {
        if (System.getProperty("role").equals("consumer")) {
            listen();
        } else {
            produce();
        }
        Control.await();
    }

    private static Map<String, Object> options(String prefix, String serde) {
        Properties given = Control.options(prefix, 0);
        Map<String, Object> options = new HashMap<>();
        given.stringPropertyNames().forEach(name -> options.put(name, given.getProperty(name)));
        for (String part : new String[] {"key", "value"}) {
            options.put(part + "." + serde.toLowerCase(), "org.apache.kafka.common.serialization.ByteArray"
                + serde.substring(0, 1).toUpperCase() + serde.substring(1));
        }
        return options;
    }

    private static void listen() {
        int clients = Integer.getInteger("clients", 1);
        Map<String, Object> options = options("c.", "deserializer");
        Trouble[] troubles = new Trouble[clients];
        for (int i = 0; i < clients; i++) {
            troubles[i] = new Trouble(null, TOPIC, Truth.of("consumer", options.get("client.id") + "-" + i), i);
        }
        ContainerProperties properties = new ContainerProperties(TOPIC.split(","));
        boolean each = System.getProperty("commit", "auto").equals("sync");
        properties.setAckMode(each ? ContainerProperties.AckMode.RECORD : ContainerProperties.AckMode.BATCH);
        properties.setMessageListener((MessageListener<byte[], byte[]>) record -> {
            Matcher number = NUMBER.matcher(Thread.currentThread().getName());
            troubles[number.find() ? Integer.parseInt(number.group(1)) : 0].handled(record.topic());
        });
        ConcurrentMessageListenerContainer<byte[], byte[]> container =
            new ConcurrentMessageListenerContainer<>(new DefaultKafkaConsumerFactory<>(options), properties);
        container.setConcurrency(clients);
        container.setBeanName(System.getProperty("thread", "orders"));
        Control.run(how -> container.stop());
        container.start();
    }

    private static void produce() {
        DefaultKafkaProducerFactory<byte[], byte[]> factory =
            new DefaultKafkaProducerFactory<>(options("p.", "serializer"));
        factory.setPhysicalCloseTimeout(60);
        KafkaTemplate<byte[], byte[]> template = new KafkaTemplate<>(factory);
        Truth truth = Truth.of("producer", Control.options("p.", 0).getProperty("client.id") + "-1");
        Producer<byte[], byte[]> producer = factory.createProducer();
        Trouble trouble = new Trouble(producer, TOPIC, truth, 0);
        template.setProducerListener(new ProducerListener<byte[], byte[]>() {
            @Override
            public void onSuccess(ProducerRecord<byte[], byte[]> record, RecordMetadata metadata) {
                trouble.onCompletion(metadata, null);
            }

            @Override
            public void onError(ProducerRecord<byte[], byte[]> record, RecordMetadata metadata, Exception error) {
                trouble.onCompletion(metadata, error);
            }
        });
        Control.run(how -> factory.destroy());
        Runtime.getRuntime().addShutdownHook(new Thread(Control::hook, "SpringApplicationShutdownHook"));
        int threads = Integer.getInteger("threads", 2);
        long pause = (long) (1e9 * threads / Double.parseDouble(System.getProperty("rate", "10")));
        for (int i = 0; i < threads; i++) {
            Control.daemon(System.getProperty("thread", "worker-") + i, () -> send(template, trouble, truth, pause));
        }
    }

    private static void send(KafkaTemplate<byte[], byte[]> template, Trouble trouble, Truth truth, long pause) {
        byte[] payload = new byte[Integer.getInteger("size", 300)];
        while (!Control.ending) {
            for (int due = trouble.due(); due > 0 && !Control.ending; due--) {
                if (truth.attempted.incrementAndGet() % Integer.getInteger("every", 50) == 0) {
                    LOG.info("order {} accepted", truth.attempted);
                }
                long token = truth.begin(truth.sending);
                try {
                    Future<?> future = template.send(trouble.record(payload));
                    truth.end(truth.sending, token);
                    if (Boolean.getBoolean("sync")) {
                        future.get(60, TimeUnit.SECONDS);
                    }
                } catch (RuntimeException failed) {
                    truth.end(truth.sending, token);
                    truth.failure(failed, true);
                    LOG.error("order not accepted", failed);
                } catch (java.util.concurrent.ExecutionException | java.util.concurrent.TimeoutException seen) {
                    LOG.warn("order not stored: {}", seen.toString());
                } catch (InterruptedException end) {
                    return;
                }
            }
            LockSupport.parkNanos(pause);
        }
    }
}
