CREATE TABLE `routes_routes` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`destination` text NOT NULL,
	`gateway` text NOT NULL,
	`interface` text NOT NULL,
	`metric` integer NOT NULL,
	`table` integer NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `routes_routes_place` ON `routes_routes` (`destination`,`table`,`metric`);--> statement-breakpoint
CREATE INDEX `routes_routes_table` ON `routes_routes` (`table`);--> statement-breakpoint
CREATE TABLE `routes_rules` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`priority` integer NOT NULL,
	`from` text NOT NULL,
	`to` text NOT NULL,
	`fwmark` integer NOT NULL,
	`iif` text NOT NULL,
	`oif` text NOT NULL,
	`table` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `routes_rules_priority` ON `routes_rules` (`priority`);