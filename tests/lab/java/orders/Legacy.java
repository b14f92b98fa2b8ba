package orders;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import kafka.consumer.Consumer;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.KafkaStream;
import kafka.javaapi.consumer.ConsumerConnector;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Consumers of kafka 0.8.2.1 with the options of class Plain. Topics are distributed over the clients. Each client is
 * a connector with one thread per topic.
 *
 * The system property `interrupted` says what the first thread does once it has been interrupted:
 *
 * commits     commits twice; the second commit never returns
 * shuts-down  shuts its connector down, and leaves threads behind
 */
public class Legacy {
    private static final Logger LOG = LoggerFactory.getLogger(Legacy.class);
    private static final String INTERRUPTED = System.getProperty("interrupted", "");
    private static final CountDownLatch LOOKING = new CountDownLatch(1);
    private static final List<ConsumerConnector> CONNECTORS = new ArrayList<>();
    private static final List<Thread> WORKERS = new ArrayList<>();

    public static void main(String[] args) throws Exception {
        int clients = Integer.getInteger("clients", 1);
        for (int i = 0; i < clients; i++) {
            consume(System.getProperty("topic").split(","), i, clients);
        }
        Control.run(how -> CONNECTORS.forEach(ConsumerConnector::shutdown));
        WORKERS.forEach(Thread::start);
        Control.await();
        WORKERS.get(0).interrupt();
        if (INTERRUPTED.equals("commits")) {
            // Wait until the first commit has failed. After a shutdown, the interrupt would end Kafka's retries of it.
            LOOKING.await();
            Method looks = Class.forName("LegacyShutdown").getDeclaredMethod("looksForCoordinator", Thread.class);
            looks.setAccessible(true);
            while (!(boolean) looks.invoke(null, WORKERS.get(0))) {
                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(10));
            }
            CONNECTORS.get(0).shutdown();
        }
    }

    private static void consume(String[] topics, int number, int clients) throws Exception {
        ConsumerConfig config = new ConsumerConfig(Control.options("c.", number));
        ConsumerConnector connector = Consumer.createJavaConsumerConnector(config);
        CONNECTORS.add(connector);
        if (INTERRUPTED.equals("commits")) {
            Class<?> demo = Class.forName("LegacyShutdown");
            Method inMemory = demo.getDeclaredMethod("lookUpBrokersInMemory", ConsumerConnector.class);
            inMemory.setAccessible(true);
            inMemory.invoke(null, connector);
        }
        Truth truth = Truth.of("consumer", config.clientId());
        Trouble trouble = new Trouble(null, null, truth, number);
        Map<String, Integer> streams = new HashMap<>();
        for (int at = number; at < topics.length; at += clients) {
            streams.put(topics[at], 1);
        }
        connector.createMessageStreams(streams).forEach((topic, of) -> {
            String name = System.getProperty("thread", "worker-") + WORKERS.size();
            Thread worker = new Thread(() -> work(connector, of.get(0), trouble, truth, topic), name);
            worker.setDaemon(INTERRUPTED.isEmpty());
            WORKERS.add(worker);
        });
    }

    private static void work(
            ConsumerConnector connector, KafkaStream<byte[], byte[]> stream, Trouble trouble, Truth truth, String topic) {
        try {
            stream.forEach(message -> trouble.handled(topic));
        } catch (Exception interrupted) {
            LOG.info("worker leaves its loop: {}", interrupted.toString());
            Thread.currentThread().interrupt();
        }
        if (Thread.currentThread() != WORKERS.get(0)) {
            return;
        }
        if (INTERRUPTED.equals("commits")) {
            truth.in = "commit";
            connector.commitOffsets(); // fails and closes the channel to the coordinator
            LOOKING.countDown();
            connector.commitOffsets(); // looks for the coordinator again, forever
        } else if (INTERRUPTED.equals("shuts-down")) {
            truth.in = "close";
            connector.shutdown();
            truth.in = "closed";
        }
    }
}
