import { sessionsContract } from '../../contracts/sessions.ts'

sessionsContract('worker')
