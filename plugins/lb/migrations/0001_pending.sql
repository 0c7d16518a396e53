CREATE TABLE `lb_pending` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`address` text NOT NULL,
	`port` integer NOT NULL,
	`protocol` text NOT NULL,
	`backend_ip` text NOT NULL,
	`backend_port` integer NOT NULL
);
