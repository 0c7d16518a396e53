/** packets-deny.test.ts with nft in the place of the programs. */
import './nft-lane.ts'
import './packets-deny.test.ts'
