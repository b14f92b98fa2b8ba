package orders;

import com.sun.net.httpserver.HttpServer;
import io.micrometer.core.instrument.binder.kafka.KafkaClientMetrics;
import io.micrometer.prometheus.PrometheusConfig;
import io.micrometer.prometheus.PrometheusMeterRegistry;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.Executors;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.producer.Producer;

/** Serves Micrometer's metrics, as Spring Boot's actuator does, on the port in the property micrometer.port. */
public final class Page {
    private Page() {
    }

    public static void serve(List<Object> clients) throws java.io.IOException {
        PrometheusMeterRegistry registry = new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
        for (Object client : clients) {
            (client instanceof Producer
                ? new KafkaClientMetrics((Producer<?, ?>) client) : new KafkaClientMetrics((Consumer<?, ?>) client))
                .bindTo(registry);
        }
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.getInteger("micrometer.port")), 10);
        server.createContext("/metrics", exchange -> {
            byte[] text = registry.scrape().getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(200, text.length);
            try (OutputStream body = exchange.getResponseBody()) {
                body.write(text);
            }
        });
        server.setExecutor(Executors.newSingleThreadExecutor(run -> {
            Thread thread = new Thread(run, "metrics-page");
            thread.setDaemon(true);
            return thread;
        }));
        server.start();
    }
}
