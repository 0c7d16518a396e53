ALTER TABLE `flows_readings` ADD `refused` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
CREATE INDEX `flows_addresses_last` ON `flows_addresses` (`last_slot`);