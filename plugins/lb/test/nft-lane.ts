/** Imported before the tests of another file, it makes them run without the programs. */
process.env.STRATUM_BALANCER = 'off'
