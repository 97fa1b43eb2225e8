import { waitingStreamsContract } from '../../contracts/waiting-streams.ts'

waitingStreamsContract('node')
