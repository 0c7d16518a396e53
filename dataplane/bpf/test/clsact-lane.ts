/** Imported before the tests of another file, it makes them attach programs by filters of clsact, also where there is tcx. */
process.env.STRATUM_ATTACH = 'clsact'
