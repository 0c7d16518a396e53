CREATE TABLE `l2_bond_members` (
	`number` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`bond` text NOT NULL,
	`interface` text NOT NULL,
	`was_up` integer NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `l2_bond_members_interface_unique` ON `l2_bond_members` (`interface`);--> statement-breakpoint
CREATE INDEX `l2_bond_members_bond` ON `l2_bond_members` (`bond`);--> statement-breakpoint
CREATE TABLE `l2_bonds` (
	`number` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`id` text NOT NULL,
	`name` text NOT NULL,
	`mode` text NOT NULL,
	`mtu` integer NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `l2_bonds_id_unique` ON `l2_bonds` (`id`);--> statement-breakpoint
CREATE UNIQUE INDEX `l2_bonds_name_unique` ON `l2_bonds` (`name`);