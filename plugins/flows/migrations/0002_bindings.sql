CREATE TABLE `flows_bindings` (
	`key` text PRIMARY KEY NOT NULL,
	`since` text NOT NULL,
	`bytes_in` integer NOT NULL,
	`bytes_out` integer NOT NULL,
	`packets_in` integer NOT NULL,
	`packets_out` integer NOT NULL
);
