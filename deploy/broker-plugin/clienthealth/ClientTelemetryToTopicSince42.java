package clienthealth;

import org.apache.kafka.server.telemetry.ClientTelemetryContext;
import org.apache.kafka.server.telemetry.ClientTelemetryExporter;
import org.apache.kafka.server.telemetry.ClientTelemetryExporterProvider;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;

/** The plugin for brokers 4.2 and newer (KIP-1217), which provide the push interval. Older brokers cannot load it. */
public final class ClientTelemetryToTopicSince42 extends ClientTelemetryToTopic
        implements ClientTelemetryExporterProvider, ClientTelemetryExporter {
    @Override
    public ClientTelemetryExporter clientTelemetryExporter() {
        return clientReceiver() == this ? this : (context, payload) -> refuse();
    }

    @Override
    public void exportMetrics(ClientTelemetryContext context, ClientTelemetryPayload payload) {
        take(context.authorizableRequestContext(), payload, context.pushIntervalMs());
    }
}
