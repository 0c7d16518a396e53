CREATE TABLE `gateway_role` (
	`id` integer PRIMARY KEY NOT NULL,
	`state` text NOT NULL,
	`ordered` integer NOT NULL,
	`boot` text NOT NULL,
	`interface` text NOT NULL
);
