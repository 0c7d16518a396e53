-- Locally administered, individual: the second hex digit is 2.
INSERT INTO `l2_settings` (`name`, `value`)
VALUES ('work_mac', lower(printf('02:73:%s:%s:%s:%s', hex(randomblob(1)), hex(randomblob(1)), hex(randomblob(1)), hex(randomblob(1)))));
