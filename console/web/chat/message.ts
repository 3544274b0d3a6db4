/** One message of a conversation, and of an answer what it cost. */
export interface ChatMessage {
  role: 'user' | 'assistant';
  content: string;
  model?: string;
  cost?: { amount: number; currency: string } | undefined;
  request_id?: string | null;
  /** Of an answer that is not whole. */
  ended?: Ending;
  /** It was asked anew: it stands there, and is not sent along. */
  is_left_out?: boolean;
}

/** How an answer ended before it was whole, in one word and in a sentence. */
export interface Ending {
  how: 'stopped' | 'broke off';
  words: string;
}

/** A call that no wallet covers, as the gateway tells it. */
export interface HeldTicket {
  id: string;
  estimated_cost: number;
  /** Of the fullest of its wallets. */
  shortfall: number;
  wallets?: { owner_type: string; shortfall: number }[];
  currency: string;
  expires_at: string;
}
