package doctor

import "context"

// mail goes the way of a mail to its server up to the login. No mail is sent.
func (cfg *Config) mail(ctx context.Context, f *findings) {
	if cfg.Mail == nil {
		f.ok("no mail server is named: mails are not sent by SMTP")
		return
	}
	if err := cfg.Mail.Try(ctx); err != nil {
		f.failed(err, "correct --smtp-addr, --smtp-tls, the user and the password, or start the server")
		return
	}
	f.ok("%s answers, and takes the login; no mail was sent", cfg.MailServer)
}
