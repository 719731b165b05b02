CREATE TABLE orders (order_id TEXT PRIMARY KEY, customer TEXT, sku TEXT, quantity INTEGER, price TEXT);
CREATE TABLE days (day TEXT PRIMARY KEY, orders INTEGER);
