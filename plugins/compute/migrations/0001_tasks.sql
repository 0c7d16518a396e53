CREATE TABLE `compute_tasks` (
	`number` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`id` text NOT NULL,
	`kind` text NOT NULL,
	`state` text NOT NULL,
	`resource` text NOT NULL,
	`tenant_id` text DEFAULT '' NOT NULL,
	`progress` integer DEFAULT 0 NOT NULL,
	`started_at` text NOT NULL,
	`finished_at` text DEFAULT '' NOT NULL,
	`error` text DEFAULT '' NOT NULL,
	`result` text DEFAULT '' NOT NULL,
	`ended` integer DEFAULT 0 NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `compute_tasks_id_unique` ON `compute_tasks` (`id`);--> statement-breakpoint
CREATE INDEX `compute_tasks_state` ON `compute_tasks` (`state`,`number`);--> statement-breakpoint
CREATE UNIQUE INDEX `compute_tasks_ended` ON `compute_tasks` (`ended`) WHERE ended > 0;