import { waitingStreamsContract } from '../../contracts/waiting-streams.ts'

waitingStreamsContract('worker')
