import { unreadOutputContract } from '../../contracts/unread-output.ts'

unreadOutputContract('worker')
