import { sessionsContract } from '../../contracts/sessions.ts'

sessionsContract('the built Worker', 'worker')
