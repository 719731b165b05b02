// A route of Apache Camel: jms component with transacted=true, JSON, a copy to another queue.
// Arguments: URL. Commands on standard input: "loop FROM TO COUNT CONSUMERS". Prints the seconds of each command.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.component.jackson.JacksonDataFormat;
import org.apache.camel.component.jms.JmsComponent;
import org.apache.camel.impl.DefaultCamelContext;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.springframework.jms.connection.CachingConnectionFactory;

public class CamelRoute {
    public static void main(String[] arguments) throws Exception {
        DefaultCamelContext context = new DefaultCamelContext();
        CachingConnectionFactory factory = new CachingConnectionFactory(new JmsConnectionFactory(arguments[0]));
        factory.setSessionCacheSize(10);
        // Transactions of the session itself, as Camel advises: a transaction manager makes a consumer for each message.
        JmsComponent jms = JmsComponent.jmsComponent(factory);
        jms.setTransacted(true);
        jms.setLazyCreateTransactionManager(false);
        jms.setCacheLevelName("CACHE_CONSUMER");
        context.addComponent("jms", jms);
        context.start();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        int number = 0;
        for (String line; (line = commands.readLine()) != null; ) {
            String[] words = line.split(" ");
            String route = "route" + number++;
            CountDownLatch left = new CountDownLatch(Integer.parseInt(words[3]));
            JacksonDataFormat json = new JacksonDataFormat(Map.class);
            context.addRoutes(new RouteBuilder() {
                @Override
                public void configure() {
                    from("jms:queue:" + words[1] + "?transacted=true&concurrentConsumers=" + words[4])
                        .routeId(route)
                        .unmarshal(json)
                        .process(exchange -> {
                            if (exchange.getMessage().getBody(Map.class).get("CustomerId") == null) {
                                throw new IllegalStateException("no id");
                            }
                        })
                        .marshal(json)
                        .to("jms:queue:" + words[2])
                        .process(exchange -> left.countDown());
                }
            });
            long begun = System.nanoTime();
            left.await();
            double seconds = (System.nanoTime() - begun) / 1e9;
            context.getRouteController().stopRoute(route);
            context.removeRoute(route);
            System.out.println(seconds);
        }
        context.stop();
        System.exit(0);
    }
}
