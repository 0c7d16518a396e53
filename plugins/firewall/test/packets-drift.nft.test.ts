/** packets-drift.test.ts with nft in the place of the classifier. */
import './nft-lane.ts'
import './packets-drift.test.ts'
