import java.lang.reflect.Field;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import kafka.consumer.Consumer;
import kafka.consumer.ConsumerConfig;
import kafka.consumer.ConsumerIterator;
import kafka.consumer.ConsumerTimeoutException;
import kafka.consumer.KafkaStream;
import kafka.consumer.ZookeeperConsumerConnector;
import kafka.javaapi.consumer.ConsumerConnector;
import kafka.utils.ZKStringSerializer$;
import kafka.utils.ZkUtils;
import org.I0Itec.zkclient.ZkClient;
import org.apache.zookeeper.data.Stat;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A consumer of kafka 0.8.2.1. At the end, its worker thread is interrupted. The worker then ends cleanly, or calls
 * Kafka while its interrupt flag is set. Options are system properties:
 *
 * zookeeper.connect, topic, group
 * seconds   time (s) until the end
 * c.NAME    consumer option NAME
 * end       clean: the worker clears its interrupt flag before it commits its offsets
 *           loop: the interrupted worker commits its offsets twice; the second commit never returns
 *           left-behind: the interrupted worker shuts the connector down; other threads keep the JVM alive
 *
 * For the end `loop`, a BrokersFromMemory replaces the connector's ZkClient, because the imitated application did not
 * ask ZooKeeper for the brokers.
 *
 * When the failure begins, the program prints ONSET, the time (epoch ms) and a text. Every few seconds, it prints
 * COUNTERS and a JSON object.
 */
public class LegacyShutdown {
    private static final Logger LOG = LoggerFactory.getLogger("events.Worker");
    private static final LongAdder CONSUMED = new LongAdder();
    private static final CountDownLatch LOOKING = new CountDownLatch(1);

    public static void main(String[] args) throws Exception {
        String end = System.getProperty("end", "loop");
        String group = System.getProperty("group", "events");
        String topic = System.getProperty("topic", "events");
        Properties options = new Properties();
        options.put("zookeeper.connect", System.getProperty("zookeeper.connect"));
        options.put("group.id", group);
        options.put("client.id", group);
        options.put("auto.offset.reset", "smallest");
        options.put("offsets.storage", "kafka");
        options.put("dual.commit.enabled", "false");
        options.put("consumer.timeout.ms", "500");
        for (String name : System.getProperties().stringPropertyNames()) {
            if (name.startsWith("c.")) {
                options.put(name.substring(2), System.getProperty(name));
            }
        }
        ConsumerConnector connector = Consumer.createJavaConsumerConnector(new ConsumerConfig(options));
        if (end.equals("loop")) {
            lookUpBrokersInMemory(connector);
        }
        KafkaStream<byte[], byte[]> stream =
            connector.createMessageStreams(Collections.singletonMap(topic, 1)).get(topic).get(0);
        Thread worker = new Thread(() -> work(connector, stream, end), "events-worker");
        worker.start();
        for (long second = 0; second < Long.getLong("seconds", 30); second++) {
            TimeUnit.SECONDS.sleep(1);
            if (second % 5 == 4) {
                report();
            }
        }
        LOG.info("asked to stop");
        worker.interrupt();
        if (end.equals("left-behind")) {
            worker.join();
            report();
            return;
        }
        if (end.equals("loop")) {
            // Wait until the first commit has failed. If the shutdown began earlier, Kafka would try to repeat this
            // commit, and the interrupt would end these attempts.
            LOOKING.await();
            while (!looksForCoordinator(worker)) {
                TimeUnit.MILLISECONDS.sleep(10);
            }
        } else {
            worker.join();
        }
        connector.shutdown();
        report();
    }

    private static void work(ConsumerConnector connector, KafkaStream<byte[], byte[]> stream, String end) {
        ConsumerIterator<byte[], byte[]> messages = stream.iterator();
        while (!Thread.currentThread().isInterrupted()) {
            try {
                messages.next();
                CONSUMED.increment();
            } catch (ConsumerTimeoutException nothingNew) {
                continue;
            } catch (Exception interrupted) {
                LOG.info("worker leaves its loop: {}", interrupted.toString());
                Thread.currentThread().interrupt();
            }
        }
        if (end.equals("clean")) {
            Thread.interrupted();
            connector.commitOffsets();
            return;
        }
        System.out.println("ONSET " + System.currentTimeMillis() + " " + end);
        if (end.equals("loop")) {
            connector.commitOffsets(); // fails and closes the channel to the coordinator
            LOOKING.countDown();
            connector.commitOffsets(); // looks for the coordinator again, for ever
        } else {
            connector.shutdown();
        }
    }

    private static boolean looksForCoordinator(Thread worker) {
        return Arrays.stream(worker.getStackTrace()).anyMatch(f -> f.getMethodName().equals("channelToOffsetManager"));
    }

    private static void lookUpBrokersInMemory(ConsumerConnector connector) throws ReflectiveOperationException {
        Field underlying = connector.getClass().getDeclaredField("underlying");
        underlying.setAccessible(true);
        Field zkClient =
            ZookeeperConsumerConnector.class.getDeclaredField("kafka$consumer$ZookeeperConsumerConnector$$zkClient");
        zkClient.setAccessible(true);
        zkClient.set(underlying.get(connector), new BrokersFromMemory(System.getProperty("zookeeper.connect")));
    }

    /** Returns the brokers that were registered when this object was created; asks ZooKeeper for all other data. */
    private static final class BrokersFromMemory extends ZkClient {
        private final Map<String, String> brokers = new HashMap<>();
        private final List<String> ids;

        BrokersFromMemory(String servers) {
            super(servers, 30000, 30000, ZKStringSerializer$.MODULE$);
            ids = super.getChildren(ZkUtils.BrokerIdsPath());
            for (String id : ids) {
                String path = ZkUtils.BrokerIdsPath() + "/" + id;
                brokers.put(path, super.readData(path));
            }
        }

        @Override
        public List<String> getChildren(String path) {
            return path.equals(ZkUtils.BrokerIdsPath()) ? ids : super.getChildren(path);
        }

        @Override
        @SuppressWarnings("unchecked")
        public <T> T readData(String path, Stat stat) {
            String broker = brokers.get(path);
            return broker == null ? super.readData(path, stat) : (T) broker;
        }
    }

    private static void report() {
        System.out.printf("COUNTERS {\"ts\": %d, \"consumed\": %d}%n", System.currentTimeMillis(), CONSUMED.sum());
    }
}
