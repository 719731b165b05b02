// A Java program that knows JMS alone. Arguments: URL USER PASSWORD QUEUE COUNT ask|answer.
// ask: asks for customers 0 to COUNT-1 at once, awaits the answers on a temporary queue, and prints each
// number with the answer. answer: takes COUNT requests, and then answers the last one first.

import jakarta.jms.Connection;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.qpid.jms.JmsConnectionFactory;

public class Foreign {
    private static final int PATIENCE = 60_000;
    private static final Pattern NUMBER = Pattern.compile("\"CustomerId\": *\"([^\"]*)\"");
    private static final String ASKING = "{\"BusinessObject\":\"Customer\",\"Verb\":\"Retrieve\",\"CustomerId\":\"%d\"}";

    public static void main(String[] arguments) throws Exception {
        Connection connection =
            new JmsConnectionFactory(arguments[0]).createConnection(arguments[1], arguments[2]);
        connection.start();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(arguments[3]);
        int count = Integer.parseInt(arguments[4]);
        if (arguments[5].equals("ask")) {
            ask(session, queue, count);
        } else {
            answer(session, queue, count);
        }
        connection.close();
    }

    private static void ask(Session session, Queue queue, int count) throws Exception {
        Queue replies = session.createTemporaryQueue();
        MessageConsumer consumer = session.createConsumer(replies);
        MessageProducer producer = session.createProducer(queue);
        Map<String, Integer> numbers = new HashMap<>();
        for (int number = 0; number < count; number++) {
            TextMessage request = session.createTextMessage(ASKING.formatted(number));
            request.setJMSReplyTo(replies);
            producer.send(request);
            numbers.put(request.getJMSMessageID(), number);
        }
        for (int replied = 0; replied < count; replied++) {
            TextMessage reply = (TextMessage) taken(consumer);
            Integer number = numbers.remove(reply.getJMSCorrelationID());
            System.out.println(number + " " + reply.getStringProperty("ResponseResult") + " " + reply.getText());
        }
    }

    private static void answer(Session session, Queue queue, int count) throws Exception {
        MessageConsumer consumer = session.createConsumer(queue);
        MessageProducer producer = session.createProducer(null);
        List<TextMessage> requests = new ArrayList<>();
        while (requests.size() < count) {
            requests.add((TextMessage) taken(consumer));
        }
        for (int index = count - 1; index >= 0; index--) {
            TextMessage request = requests.get(index);
            Matcher found = NUMBER.matcher(request.getText());
            found.find();
            String body = "{\"CustomerId\": \"%1$s\", \"Name\": \"name of %1$s\"}".formatted(found.group(1));
            TextMessage reply = session.createTextMessage(body);
            reply.setJMSCorrelationID(request.getJMSMessageID());
            reply.setStringProperty("ResponseResult", "VALCHANGE");
            producer.send(request.getJMSReplyTo(), reply);
        }
    }

    private static Message taken(MessageConsumer consumer) throws Exception {
        Message message = consumer.receive(PATIENCE);
        if (message == null) {
            throw new IllegalStateException("no message has come");
        }
        return message;
    }
}
