import { wedgedStreamsContract } from '../../contracts/wedged-streams.ts'

wedgedStreamsContract('node')
