package orders;

import java.io.IOException;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.cli.ConnectStandalone;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

/** A Kafka Connect worker with a sink connector; takes the options of Plain's consumers. `clients`: number of tasks. */
public class Connect extends SinkConnector {
    private Map<String, String> given;

    public static void main(String[] args) throws Exception {
        Properties consumer = Control.options("c.", 0);
        Properties worker = new Properties();
        worker.put("bootstrap.servers", consumer.remove("bootstrap.servers"));
        worker.put("key.converter", "org.apache.kafka.connect.converters.ByteArrayConverter");
        worker.put("value.converter", "org.apache.kafka.connect.converters.ByteArrayConverter");
        worker.put("offset.storage.file.filename", "offsets");
        worker.put("listeners", "http://127.0.0.1:0");
        worker.put("plugin.discovery", "only_scan");
        Properties sink = new Properties();
        sink.put("name", consumer.remove("client.id"));
        sink.put("connector.class", Connect.class.getName());
        sink.put("tasks.max", System.getProperty("clients", "1"));
        sink.put("topics", System.getProperty("topic"));
        consumer.remove("group.id");
        consumer.forEach((name, value) -> sink.put("consumer.override." + name, value));
        Control.run(how -> { });
        Thread main = new Thread(() -> ConnectStandalone.main(new String[] {
            written("worker.properties", worker), written("sink.properties", sink)}), "connect-main");
        main.start();
        Control.await();
    }

    private static String written(String name, Properties properties) {
        try (Writer file = Files.newBufferedWriter(Paths.get(name))) {
            properties.store(file, null);
            return name;
        } catch (IOException failed) {
            throw new IllegalStateException(failed);
        }
    }

    @Override
    public void start(Map<String, String> properties) {
        given = properties;
    }

    @Override
    public Class<Task> taskClass() {
        return Task.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        return Collections.nCopies(most, given);
    }

    @Override
    public void stop() {
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public String version() {
        return "1";
    }

    /** A task of the sink connector; each task has a thread and a consumer of its own. */
    public static class Task extends SinkTask {
        private Trouble trouble;

        @Override
        public void start(Map<String, String> properties) {
            String thread = Thread.currentThread().getName();
            int number = Integer.parseInt(thread.substring(thread.lastIndexOf('-') + 1));
            String id = "connector-consumer-" + properties.get("name") + "-" + number;
            trouble = new Trouble(null, null, Truth.of("consumer", id), number);
        }

        @Override
        public void put(Collection<SinkRecord> records) {
            records.forEach(record -> trouble.handled(record.topic()));
        }

        @Override
        public void stop() {
        }

        @Override
        public String version() {
            return "1";
        }
    }
}
