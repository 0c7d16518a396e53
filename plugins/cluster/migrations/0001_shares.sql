ALTER TABLE `cluster_self` ADD `shares` text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE `cluster_self` ADD `had_others` integer DEFAULT false NOT NULL;