CREATE TABLE `billing_states` (
	`tenant_id` text PRIMARY KEY NOT NULL,
	`bucket` integer NOT NULL,
	`limit_bps` integer DEFAULT 0 NOT NULL,
	`suspended_at` text DEFAULT '' NOT NULL,
	`blocked` integer DEFAULT false NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `billing_states_bucket_unique` ON `billing_states` (`bucket`);