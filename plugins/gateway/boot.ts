import { readFileSync } from 'node:fs'

/** Which boot of the machine this is (random(4)); another one after every boot. */
export const bootId = (): string => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
