CREATE TABLE `tenants_keys` (
	`id` text PRIMARY KEY NOT NULL,
	`tenant` text NOT NULL,
	`label` text NOT NULL,
	`hash` text NOT NULL,
	`created_at` text NOT NULL,
	`last_used_at` text DEFAULT '' NOT NULL,
	`expires_at` text DEFAULT '' NOT NULL,
	`created_by` text NOT NULL
);
--> statement-breakpoint
CREATE INDEX `tenants_keys_tenant` ON `tenants_keys` (`tenant`,`created_at`,`id`);--> statement-breakpoint
CREATE TABLE `tenants_quotas` (
	`tenant` text NOT NULL,
	`resource` text NOT NULL,
	`most` integer NOT NULL,
	`updated_at` text NOT NULL,
	PRIMARY KEY(`tenant`, `resource`)
);
--> statement-breakpoint
CREATE TABLE `tenants_tenants` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`status` text NOT NULL,
	`created_at` text NOT NULL,
	`updated_at` text NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `tenants_tenants_name_unique` ON `tenants_tenants` (`name`);