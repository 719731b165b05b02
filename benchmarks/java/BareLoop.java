// The bare transacted loop in Java: receive, read JSON, send a copy, commit each BATCH messages.
// Arguments: URL. Commands on standard input: "fill QUEUE COUNT BODY" and "loop FROM TO COUNT BATCH".
// Prints the seconds of each command.

import com.fasterxml.jackson.databind.ObjectMapper;
import jakarta.jms.Connection;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.qpid.jms.JmsConnectionFactory;

public class BareLoop {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        Connection connection = new JmsConnectionFactory(arguments[0]).createConnection();
        connection.start();
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = commands.readLine()) != null; ) {
            String[] words = line.split(" ", 5);
            long begun = System.nanoTime();
            if (words[0].equals("fill")) {
                fill(session, words[1], Integer.parseInt(words[2]), line.split(" ", 4)[3]);
            } else {
                loop(session, words[1], words[2], Integer.parseInt(words[3]), Integer.parseInt(words[4]));
            }
            System.out.println((System.nanoTime() - begun) / 1e9);
        }
        connection.close();
    }

    private static void fill(Session session, String queue, int count, String body) throws Exception {
        MessageProducer producer = session.createProducer(session.createQueue(queue));
        for (int number = 1; number <= count; number++) {
            TextMessage message = session.createTextMessage(body);
            message.setJMSType("CUST_IN");
            producer.send(message);
            if (number % 500 == 0 || number == count) {
                session.commit();
            }
        }
        producer.close();
    }

    private static void loop(Session session, String from, String to, int count, int batch) throws Exception {
        MessageConsumer consumer = session.createConsumer(session.createQueue(from));
        MessageProducer producer = session.createProducer(session.createQueue(to));
        for (int number = 1; number <= count; number++) {
            Message message = consumer.receive(30_000);
            if (message == null) {
                throw new IllegalStateException("message " + number + " did not come");
            }
            String body = ((TextMessage) message).getText();
            if (JSON.readTree(body).path("CustomerId").asText().isEmpty()) {
                throw new IllegalStateException("no id");
            }
            producer.send(session.createTextMessage(body));
            if (number % batch == 0 || number == count) {
                session.commit();
            }
        }
        consumer.close();
        producer.close();
    }
}
