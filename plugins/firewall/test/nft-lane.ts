/** Imported before the tests of another file, it makes them run without the classifier. */
process.env.STRATUM_CLASSIFIER = 'off'
