/** packets-share.test.ts with nft in the place of the programs. */
import './nft-lane.ts'
import './packets-share.test.ts'
