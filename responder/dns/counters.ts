/** What has been asked and answered since the start. */
export interface Counters {
  /** Requests by what carried them. */
  udp: number
  tcp: number
  /** Neither answered nor counted below: no request at all. */
  dropped: number
  /** Answers by return code; those that are not listed are `other`. */
  noerror: number
  nxdomain: number
  refused: number
  formerr: number
  servfail: number
  other: number
  /** Sent without content, to be asked again over TCP. */
  truncated: number
  /** Of these, of SERVFAIL over TCP, and of those that were not sent at all: because a limit was reached. */
  limited: number
  /** Answers that were not in the cache. */
  made: number
}

export const newCounters = (): Counters => ({
  ...{ udp: 0, tcp: 0, dropped: 0, noerror: 0, nxdomain: 0, refused: 0, formerr: 0, servfail: 0, other: 0 },
  ...{ truncated: 0, limited: 0, made: 0 },
})
